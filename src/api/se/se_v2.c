/* SPDX-License-Identifier: Apache-2.0 */
/* /workspace/se/v2: a Lambda handler in a fresh box; see api/workspace_se.yaml. */
#include <errno.h>
#include <string.h>

#include "api/se/se.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/str.h"
#include "service/result.h"

#define TIMEOUT_KEY "__timeout"
#define EXIT_UNLOADED 1
#define EXIT_RAISED 2
#define ANSWER_MAX ((size_t)256 << 20)
#define READY_PATIENCE_MS 10000 /* right after the start */

/* Absent or not above 0: the configuration's; 0: it is no number. */
static uint64_t timeout_ms(const struct api_call *call, const json_t *event)
{
    const json_t *own = json_object_get(event, TIMEOUT_KEY);

    if (own != NULL && !json_is_number(own)) {
        return 0;
    }
    if (own == NULL || json_number_value(own) <= 0) {
        return service_config(call_service(call))->se_timeout_ms;
    }
    double ms = json_number_value(own) * 1000;
    return ms >= HANDLER_TIMEOUT_MAX_MS ? HANDLER_TIMEOUT_MAX_MS : MAX((uint64_t)ms, 1);
}

/* ---- the answer ---- */

/* What ended it other than the handler itself; NULL: nothing did. */
static const char *failure_code(const struct husk_result *r)
{
    if (r->status == HUSK_TIMEOUT) {
        return "Sandbox.ExecTimeout";
    }
    bool is_own_end = r->status == HUSK_COMPLETED ||
                      (r->status == HUSK_FAILED && r->termination.cause == HUSK_CAUSE_EXIT);
    return is_own_end ? NULL : "Sandbox.ExecException";
}

/*
 * What was written, then why there is no result: the exception, or an exit() of the handler's own.
 */
static json_t *stderr_json(const struct husk_result *r)
{
    AUTO_BUF struct buf b = BUF_INIT(ANSWER_MAX);
    int n = buf_add(&b, r->err, r->err_len);

    if (n == 0 && r->error.type != NULL) {
        n = r->error.traceback != NULL
                ? buf_add_str(&b, r->error.traceback)
                : buf_printf(&b, "%s: %s\n", r->error.type,
                             r->error.message != NULL ? r->error.message : "");
    } else if (n == 0 && r->value_json == NULL && failure_code(r) == NULL) {
        n = buf_printf(&b, "the handler ended the program with exit code %d instead of returning\n",
                       r->exit_code);
    }
    if (n == 0 && r->value_json != NULL && result_is_too_much(r->value_json)) {
        n = buf_printf(&b, "[the result has more than %d values and is left out]\n",
                       RESULT_VALUES_MAX);
    }
    n = n == 0 ? se_add_losses(&b, r) : n;
    return n == 0 ? api_text_json(b.data != NULL ? b.data : "", b.len) : NULL;
}

/*
 * A claim of the box, passed on as it was written if it is JSON: printing it again would change
 * numbers.
 */
static const char *result_text(const struct husk_result *r)
{
    const size_t flags = JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL;
    bool can_look = r->value_json != NULL && !result_is_too_much(r->value_json);
    json_t *value = can_look ? json_loads(r->value_json, flags, NULL) : NULL;
    bool is_json = value != NULL;

    json_decref(value);
    return is_json ? r->value_json : "null";
}

/*
 * As the original numbers the ends of a handler: 1 the code cannot be loaded, 2 the handler raised.
 * Ends that it does not know, an exit() among them, have the number that a shell reports.
 */
static int exit_code(const struct husk_result *r)
{
    static const char *const unloaded[] = {"SyntaxError", "IndentationError", "TabError",
                                           "NoHandler"};
    const char *type = r->error.type;

    if (r->termination.cause != HUSK_CAUSE_EXIT || type == NULL || r->exit_code == 0) {
        return r->exit_code;
    }
    for (size_t i = 0; i < ARRAY_LEN(unloaded); i++) {
        if (str_eq(type, unloaded[i])) {
            return EXIT_UNLOADED;
        }
    }
    return EXIT_RAISED;
}

/* What it wrote and used, however it ended. NULL when memory is gone. */
static json_t *output_json(const struct husk_result *r, uint64_t limit_ms)
{
    const struct husk_metrics *m = &r->metrics;

    return json_pack("{s:i, s:o, s:o, s:{s:f, s:f, s:f, s:f}}", "exit_code", exit_code(r), "stdout",
                     api_text_json(r->out, r->out_len), "stderr", stderr_json(r), "metrics",
                     "duration_ms", m->duration_ms, "memory_peak_mb", m->peak_memory_mb,
                     "cpu_time_ms", m->cpu_time_ms, "timeout_seconds", (double)limit_ms / 1000.0);
}

/* The error in the original's words, and beside it what was written until then. */
static void reply_failure(struct api_call *call, const struct husk_result *r, uint64_t limit_ms)
{
    const char *limit = r->termination.limit;
    char detail[API_DETAIL_MAX];
    struct api_error error = {.status = 500, .code = failure_code(r), .detail = detail};

    (void)str_format(detail, sizeof(detail), "%s%s%s%s", r->termination.detail,
                     limit[0] != '\0' ? " (limit: " : "", limit, limit[0] != '\0' ? ")" : "");
    if (r->status == HUSK_TIMEOUT) {
        error.solution = "Raise " TIMEOUT_KEY " in the event, or give it less to do.";
    } else if (r->status == HUSK_MEMORY_EXCEEDED) {
        error.description = "The handler needed more memory than it may have.";
        error.solution = "Let it use less; the server's operator sets the limit as se_memory.";
    }
    json_t *body = api_error_json(API_WORKSPACE_SE, &error, NULL);
    json_t *output = output_json(r, limit_ms);
    (void)json_object_update(json_object_get(body, "detail"), output);
    json_decref(output);
    call_reply_json(call, 500, body);
}

/* ---- the run ---- */

static void run(struct api_call *call, uint64_t limit_ms, const char *event, const char *context)
{
    const json_t *code = json_object_get(call_body(call), "handler_code");
    struct husk_result *result = NULL;
    struct run_fault fault;
    struct husk_spec spec = {
        .template_name = "python",
        .kind = HUSK_HANDLER,
        .code = json_string_value(code),
        .code_len = json_string_length(code),
        .event = event,
        .context = context,
        .limits = se_limits(call, 0),
        .keep_bytes = service_config(call_service(call))->output_keep_bytes,
        .cancel_fd = call_gone_fd(call),
    };

    spec.limits.timeout_ms = limit_ms;
    if (service_run(call_service(call), call_client(call), &spec, &result, &fault) < 0) {
        call_reply_fault(call, &fault, NULL);
        return;
    }
    service_audit(&(struct audit_subject){.request_id = call_request_id(call),
                                          .template_name = spec.template_name},
                  result);
    if (failure_code(result) == NULL) {
        se_reply_with(call, output_json(result, limit_ms), "result", result_text(result));
    } else {
        reply_failure(call, result, limit_ms);
    }
    husk_result_free(result);
}

void api_se_v2_execute_code(struct api_call *call)
{
    const json_t *event = json_object_get(call_body(call), "event");
    uint64_t limit_ms = timeout_ms(call, event);
    AUTO_FREE char *event_text = json_dumps(event, JSON_COMPACT);
    AUTO_FREE char *context_text =
        json_dumps(json_object_get(call_body(call), "context"), JSON_COMPACT);

    const char *unready = service_await_boxes(call_service(call), READY_PATIENCE_MS);
    if (unready != NULL) {
        struct err e;
        (void)err_set(&e, ERR_UNAVAILABLE, "%s", unready);
        call_reply_unbegun(call, &e);
    } else if (limit_ms == 0) {
        se_reply_field(call, "event", "float_type",
                       "event." TIMEOUT_KEY " must be a number of seconds");
    } else if (event_text == NULL || context_text == NULL) {
        struct err e;
        (void)err_sys(&e, ENOMEM, "request");
        call_reply_err(call, &e);
    } else {
        run(call, limit_ms, event_text, context_text);
    }
}
