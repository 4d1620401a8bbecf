/* SPDX-License-Identifier: Apache-2.0 */
/* /workspace/se: code and commands in a session; see api/workspace_se.yaml. */
#include <errno.h>
#include <string.h>

#include "api/se/se.h"
#include "api/se/se_files.h"
#include "base/buf.h"
#include "base/str.h"
#include "core/result_parts.h"

#define COMMAND_MAX ((size_t)1 << 20)
#define STDERR_MAX ((size_t)64 << 20)
#define ANSWER_MAX ((size_t)256 << 20)

/* ---- the answer ---- */

static int end_line(struct buf *text)
{
    bool is_inside = text->len > 0 && text->data[text->len - 1] != '\n';

    return is_inside ? buf_add_str(text, "\n") : 0;
}

int se_add_losses(struct buf *err, const struct husk_result *r)
{
    const char *const lines[] = {
        r->out_truncated ? "[stdout was longer and is cut]\n" : NULL,
        r->err_truncated ? "[stderr was longer and is cut]\n" : NULL,
        r->variables_dropped
            ? "[output_variables leaves out values: more than 1 MiB in all, or a NUL in a key]\n"
            : NULL,
    };

    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        if (lines[i] != NULL && (end_line(err) < 0 || buf_add_str(err, lines[i]) < 0)) {
            return -1;
        }
    }
    return 0;
}

/* The next code would only get a NameError. */
static int add_restart(struct buf *err, const struct husk_result *r)
{
    if (r->restart == NULL) {
        return 0;
    }
    return end_line(err) < 0
               ? -1
               : buf_printf(err, "[context restarted (%s): variables are gone, files stay]\n",
                            r->restart);
}

static int add_text(struct buf *b, const json_t *text)
{
    return json_is_string(text) ? buf_add(b, json_string_value(text), json_string_length(text)) : 0;
}

/*
 * As a program would have left it: what it wrote, the traceback of its exception, and which limit
 * ended it.
 */
static json_t *stderr_json(const struct husk_result *result)
{
    AUTO_BUF struct buf b = BUF_INIT(STDERR_MAX);
    const char *limit = result->termination.limit;
    int r = buf_add(&b, result->err, result->err_len);

    if (r == 0 && result->error.type != NULL && result->error.traceback != NULL) {
        r = buf_add_str(&b, result->error.traceback);
    }
    r = r == 0 ? se_add_losses(&b, result) : r;
    if (r == 0 && limit[0] != '\0') {
        r = buf_printf(&b, "ended by a limit: %s\n", limit);
    }
    r = r == 0 ? add_restart(&b, result) : r;
    return r == 0 ? api_text_json(b.data != NULL ? b.data : "", b.len) : NULL;
}

/* The program did not end by itself: it was stopped, or its box broke. */
static bool is_cut_short(enum execution_state state, const struct husk_result *result)
{
    return result == NULL || state == EXECUTION_CANCELLED ||
           result->termination.cause == HUSK_CAUSE_INTERNAL;
}

static void reply_cut_short(struct api_call *call, enum execution_state state,
                            const struct husk_result *result)
{
    const char *why = result != NULL ? result->error.message : NULL;

    call_reply_error(call, 500, "Sandbox.ExecException", NULL,
                     why != NULL ? why : execution_state_word((int)state), NULL);
}

void se_reply_with(struct api_call *call, json_t *answer, const char *name, const char *json)
{
    AUTO_BUF struct buf text = BUF_INIT(ANSWER_MAX);
    size_t len = 0;
    AUTO_FREE char *head = answer != NULL ? api_json_text(answer, &len) : NULL;

    json_decref(answer);
    if (head == NULL || buf_add_str(&text, head) < 0 || result_add_member(&text, name, json) < 0) {
        struct err e;
        (void)err_sys(&e, ENOMEM, "answer");
        call_reply_err(call, &e);
        return;
    }
    call_reply_text(call, 200, "application/json", text.data, text.len);
}

static void reply_result(struct api_call *call, struct execution *x, bool wants_variables)
{
    const struct execution_entry it = {.live = x};
    const struct husk_result *result = execution_result(x);

    const enum execution_state state = execution_view(&it).state;
    struct run_fault fault;

    if (execution_fault(&it, &fault)) {
        call_reply_fault(call, &fault, NULL);
        return;
    }
    if (is_cut_short(state, result)) {
        reply_cut_short(call, state, result);
        return;
    }
    json_t *answer =
        json_pack("{s:o, s:o, s:i}", "stdout", api_text_json(result->out, result->out_len),
                  "stderr", stderr_json(result), "returncode", result->exit_code);
    if (wants_variables) {
        se_reply_with(call, answer, "output_variables",
                      result->variables_json != NULL ? result->variables_json : "{}");
    } else {
        call_reply_json(call, 200, answer);
    }
}

static void run(struct api_call *call, struct session *s, struct execution_ask *ask,
                bool wants_variables)
{
    struct execution *x = NULL;
    bool existed;
    struct err e;

    ask->timeout_ms = service_config(call_service(call))->se_timeout_ms;
    ask->unrecorded = true; /* this dialect has no name for an execution */
    if (execution_start(s, ask, &x, &existed, &e) < 0) {
        call_reply_unbegun(call, &e);
        return;
    }
    (void)execution_wait(x, -1);
    reply_result(call, x, wants_variables);
    execution_release(x);
}

/* ---- code ---- */

/* A list of strings, NULL-terminated; borrows them. NULL when memory is gone. */
static const char **strings(const json_t *array)
{
    size_t n = json_array_size(array); /* 0 for null */
    const char **list = calloc(n + 1, sizeof(*list));

    for (size_t i = 0; i < n && list != NULL; i++) {
        list[i] = json_string_value(json_array_get(array, i));
    }
    return list;
}

/* Stores the code where the request wants it. -1: answered, and the session is released. */
static int store_code(struct api_call *call, struct session *s, const json_t *body)
{
    const char *filename = json_string_value(json_object_get(body, "filename"));
    char path[FILES_PATH_MAX + 1];
    struct file_work w;
    struct err e;

    if (filename == NULL) {
        return 0;
    }
    if (se_path(filename, path) < 0 || path[0] == '\0') {
        session_release(s);
        se_reply_bad_path(call, "filename must be that of a file, not the workspace itself");
        return -1;
    }
    /* The work holds the session on its own. */
    struct session *again = session_hold(call_service(call), session_id(s), &e);
    if (again == NULL) {
        session_release(s);
        call_reply_err(call, &e);
        return -1;
    }
    if (file_work_begin(&w, call, again) < 0 ||
        se_write_text(&w, path, json_object_get(body, "code"), 0) < 0) {
        session_release(s);
        return -1;
    }
    file_work_end(&w);
    return 0;
}

void api_se_execute_code(struct api_call *call)
{
    const json_t *body = call_body(call);
    const json_t *code = json_object_get(body, "code");
    const json_t *names = json_object_get(body, "output_params");
    bool is_shell = str_eq(json_string_value(json_object_get(body, "script_type")), "shell");
    AUTO_FREE const char **args = strings(json_object_get(body, "args"));
    AUTO_FREE const char **variables = strings(names);
    struct execution_ask ask = {
        .client = call_client(call),
        .kind = is_shell ? EXECUTE_COMMAND : EXECUTE_CODE,
        .code = json_string_value(code),
        .code_len = json_string_length(code),
        .args = args,
        .variables = json_is_array(names) && !is_shell ? variables : NULL, /* a shell has none */
    };

    if (args == NULL || variables == NULL) {
        struct err e;
        (void)err_sys(&e, ENOMEM, "request");
        call_reply_err(call, &e);
        return;
    }
    struct session *s = se_session_to_run(call);
    if (s != NULL && store_code(call, s, body) == 0) {
        run(call, s, &ask, json_is_array(names));
        session_release(s);
    }
}

/* ---- commands ---- */

/*
 * Command and arguments as one line for a shell: what the original does, quoting is the client's.
 */
static int command_line(const json_t *body, struct buf *line)
{
    const json_t *args = json_object_get(body, "args");
    int r = add_text(line, json_object_get(body, "command"));

    for (size_t i = 0; i < json_array_size(args) && r == 0; i++) {
        r = buf_add_str(line, " ");
        r = r == 0 ? add_text(line, json_array_get(args, i)) : r;
    }
    return r;
}

void api_se_execute(struct api_call *call)
{
    AUTO_BUF struct buf line = BUF_INIT(COMMAND_MAX);

    if (command_line(call_body(call), &line) < 0) {
        call_reply_error(call, 413, "Sandbox.InvalidParameter", "The command is too long.",
                         "command and args together may have 1 MiB", "Put it into a file.");
        return;
    }
    struct execution_ask ask = {.client = call_client(call),
                                .kind = EXECUTE_COMMAND,
                                .code = line.data,
                                .code_len = line.len};
    struct session *s = se_session_to_run(call);
    if (s != NULL) {
        run(call, s, &ask, false);
        session_release(s);
    }
}
