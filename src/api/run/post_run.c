/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyRunner's dialect: one request, one fresh box, and 200 whenever the body was valid. The words
 * are the original's.
 */
#include <math.h>
#include <string.h>

#include "api/call/call_impl.h"
#include "base/log.h"
#include "base/str.h"
#include "base/units.h"
#include "config/config.h"

/* ---- about the service ---- */

/* Of the original's libraries those that code of POST /run can import here. */
static json_t *libraries_json(struct service *svc)
{
    struct err e = {0};
    json_t *there =
        service_modules(svc, "pyrunner", "sympy numpy pandas matplotlib scipy sklearn", &e);

    return there != NULL ? there : json_array(); /* no box can be made: /health says why */
}

void api_run_root(struct api_call *call)
{
    json_t *libraries = libraries_json(call_service(call));

    call_reply_json(call, 200,
                    json_pack("{s:s, s:s, s:s, s:{s:i, s:i, s:o}, s:{s:s, s:s}}", "service",
                              "PyRunner", "status", "healthy", "version", "1.0.0", "capabilities",
                              "max_timeout", 300, "max_memory_mb", 2048, "libraries", libraries,
                              "husk", "version", HUSK_VERSION, "docs", "/docs"));
}

/* Of runs only, which need no disk. */
void api_run_health(struct api_call *call)
{
    static const char text[] = "{\"status\":\"healthy\"}";
    const char *reason = service_boxes_fail(call_service(call));

    if (reason == NULL || service_is_starting(call_service(call))) {
        call_reply_static(call, 200, "application/json", text, sizeof(text) - 1);
    } else {
        call_reply_json(call, 503,
                        json_pack("{s:s, s:s}", "status", "unhealthy", "reason", reason));
    }
}

/* ---- which template ---- */

/*
 * Both templates are the same interpreter; one has the scientific stack imported already, which
 * makes its boxes larger and slower to start. So it is used for code that names a part of the
 * stack.
 */
static bool names_stack(const char *code)
{
    static const char *const names[] = {"numpy",      "pandas", "sympy",
                                        "matplotlib", "scipy",  "sklearn"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (strstr(code, names[i]) != NULL) {
            return true;
        }
    }
    return false;
}

/*
 * Runs it; by the plain template where the one with the stack does not start. The engine remembers
 * that for a while, and the launcher has logged the reason.
 */
static int run_somewhere(struct api_call *call, struct husk_spec *spec, struct husk_result **ret,
                         struct run_fault *fault)
{
    if (names_stack(spec->code)) {
        spec->template_name = "python-datascience";
        int r = service_run(call_service(call), call_client(call), spec, ret, fault);
        if (r == 0 || (fault->err.code != ERR_TEMPLATE && fault->err.code != ERR_NOT_FOUND)) {
            return r;
        }
    }
    spec->template_name = "pyrunner";
    return service_run(call_service(call), call_client(call), spec, ret, fault);
}

/* ---- the result ---- */

struct verdict {
    const char *status;
    double seconds;
    const char *note;  /* one more line of stderr; NULL: none */
    const char *error; /* NULL: null; "": all of stderr */
};

static double rounded(double value, double steps)
{
    return round(value * steps) / steps;
}

/* The output as it was kept, with a line for each thing that the client would not see otherwise. */
static json_t *stderr_json(const struct husk_result *r, const char *note)
{
    static const char out_cut[] = "[stdout was longer and is cut]";
    static const char err_cut[] = "[stderr was longer and is cut]";
    const char *const lines[] = {r->out_truncated ? out_cut : NULL,
                                 r->err_truncated ? err_cut : NULL, note};
    struct buf b = BUF_INIT(SIZE_MAX / 2);
    int status = buf_add(&b, r->err, r->err_len);

    for (size_t i = 0; i < ARRAY_LEN(lines) && status == 0; i++) {
        if (lines[i] == NULL) {
            continue;
        }
        if (b.len > 0 && b.data[b.len - 1] != '\n') {
            status = buf_add(&b, "\n", 1);
        }
        status = status == 0 ? buf_add_str(&b, lines[i]) : status;
    }
    json_t *text = status == 0 ? api_text_json(b.data != NULL ? b.data : "", b.len) : NULL;
    buf_release(&b);
    return text;
}

static void reply_result(struct api_call *call, const struct husk_result *r,
                         const struct verdict *v)
{
    bool is_plain = v->note == NULL && !r->out_truncated && !r->err_truncated;
    json_t *err = is_plain ? api_text_json(r->err, r->err_len) : stderr_json(r, v->note);
    json_t *error = v->error == NULL      ? json_null()
                    : v->error[0] == '\0' ? json_incref(err)
                                          : api_text_json(v->error, strlen(v->error));
    json_t *memory = r->metrics.peak_memory_mb > 0
                         ? json_real(rounded(r->metrics.peak_memory_mb, 100))
                         : json_null();

    call_reply_json(call, 200,
                    json_pack("{s:s, s:o, s:o, s:f, s:o, s:o}", "status", v->status, "stdout",
                              api_text_json(r->out, r->out_len), "stderr", err, "execution_time",
                              v->seconds, "memory_used", memory, "error", error));
}

/* Code that was refused before it ran. */
static void reply_refused(struct api_call *call, const struct husk_result *r)
{
    struct buf note = BUF_INIT(SIZE_MAX / 2);
    struct verdict v = {.status = "error", .error = r->error.message};

    if (buf_printf(&note, "Security validation failed: %s", r->error.message) == 0) {
        v.note = note.data;
    }
    reply_result(call, r, &v);
    buf_release(&note);
}

static void reply_run(struct api_call *call, const struct husk_spec *spec,
                      const struct husk_result *r)
{
    uint64_t seconds = spec->limits.timeout_ms / 1000;
    double took = r->metrics.duration_ms / 1000.0;
    struct verdict v = {.status = "success", .seconds = MAX(rounded(took, 1000), 0.001)};
    char note[256];

    switch (r->status) {
    case HUSK_COMPLETED:
        break;
    case HUSK_TIMEOUT:
        (void)str_format(note, sizeof(note), "Execution timed out after %llu second%s",
                         (unsigned long long)seconds, seconds == 1 ? "" : "s");
        v.status = "timeout";
        v.seconds = MAX(v.seconds, (double)seconds);
        v.note = note;
        break;
    case HUSK_MEMORY_EXCEEDED:
        v.status = "memory_exceeded";
        v.note = "Memory limit exceeded";
        break;
    case HUSK_FAILED:
    case HUSK_CANCELLED:
    case HUSK_CRASHED:
        v.status = "error";
        v.error = "";
        if (r->termination.limit[0] != '\0' || r->err_len == 0) {
            (void)str_format(note, sizeof(note), "%s%s%s", r->termination.detail,
                             r->termination.limit[0] != '\0' ? ": " : "", r->termination.limit);
            v.note = note;
        }
        break;
    }
    reply_result(call, r, &v);
}

/* For the operator: what it did wrong, and at the level debug what it cost. */
static void log_run(const struct api_call *call, const struct husk_spec *spec,
                    const struct husk_result *r)
{
    const struct husk_metrics *m = &r->metrics;

    service_audit(&(struct audit_subject){.request_id = call->request_id,
                                          .template_name = spec->template_name},
                  r);
    log_debug("run_ended",
              "request_id=%s template=%s status=%s cause=%s exit_code=%d duration_ms=%.3f "
              "queue_ms=%.3f cpu_ms=%.3f memory_mb=%.2f stdout_bytes=%zu stderr_bytes=%zu",
              call->request_id, spec->template_name, husk_status_name(r->status),
              husk_cause_name(r->termination.cause), r->exit_code, m->duration_ms, m->queue_ms,
              m->cpu_time_ms, m->peak_memory_mb, r->out_len, r->err_len);
}

void api_run_execute(struct api_call *call)
{
    const json_t *body = call_body(call);
    const json_t *code = json_object_get(body, "code");
    const struct config *config = call->api->config;
    struct husk_result *result = NULL;
    struct run_fault fault;

    struct husk_spec spec = {
        .kind = HUSK_SCRIPT,
        .code = json_string_value(code),
        .code_len = json_string_length(code),
        .name = "<code>",
        .auto_print = json_is_true(json_object_get(body, "auto_print")),
        .policy = config->ast_policy ? HUSK_POLICY_PYRUNNER : HUSK_POLICY_NONE,
        .keep_bytes = config->output_keep_bytes,
        .cancel_fd = call_gone_fd(call), /* no other client can ask for the result */
        .limits =
            {
                .timeout_ms = (uint64_t)json_integer_value(json_object_get(body, "timeout")) * 1000,
                .memory_bytes =
                    (uint64_t)json_integer_value(json_object_get(body, "memory_limit")) * MIB,
            },
    };

    if (run_somewhere(call, &spec, &result, &fault) < 0) {
        call_reply_fault(call, &fault, NULL);
        return;
    }
    log_run(call, &spec, result);
    const char *type = result->error.type;
    if (type != NULL && str_eq(type, "PolicyViolation") && result->error.message != NULL) {
        reply_refused(call, result);
    } else {
        reply_run(call, &spec, result);
    }
    husk_result_free(result);
}
