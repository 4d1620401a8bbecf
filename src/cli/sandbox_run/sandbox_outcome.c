/* SPDX-License-Identifier: Apache-2.0 */
/* Exit code and error of a run; see sandbox_run.h. */
#include <string.h>

#include "base/str.h"
#include "cli/common/json_text.h"
#include "cli/sandbox_run/sandbox_run.h"

/* The function of the first frame, '  File "x.py", line 3, in NAME'; NULL if there is no frame. */
static const char *first_frame(const char *traceback)
{
    static const char mark[] = "\", line ";

    for (const char *p = traceback; p != NULL; p = strchr(p, '\n')) {
        p += *p == '\n';
        size_t n = strcspn(p, "\n");
        const char *at = memmem(p, n, mark, sizeof(mark) - 1);

        if (!str_starts(p, "  File \"") || at == NULL) {
            continue;
        }
        at += sizeof(mark) - 1;
        at += strspn(at, "0123456789");
        if (str_starts(at, ", in ")) {
            return at + strlen(", in ");
        }
    }
    return NULL;
}

/*
 * A SyntaxError means "the script does not load" only if the handler was not running yet: the
 * handler can cause one itself, by compile() for example. Loading fails without any frame (the
 * script itself) or below "<module>" (an import).
 */
static bool is_load_error(const struct husk_result *run)
{
    static const char *const types[] = {"SyntaxError", "IndentationError", "TabError"};

    if (str_eq(run->error.type, "NoHandler")) {
        return true;
    }
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        if (str_eq(run->error.type, types[i])) {
            const char *frame =
                run->error.traceback != NULL ? first_frame(run->error.traceback) : NULL;
            return frame == NULL || str_starts(frame, "<module>");
        }
    }
    return false;
}

static void set_error(struct sandbox_outcome *o, enum sandbox_exit code, const char *type,
                      const char *message)
{
    o->code = code;
    if (str_copy(o->error_type, sizeof(o->error_type), type) < 0) {
        (void)str_copy(o->error_type, sizeof(o->error_type), "Exception");
    }
    o->error_message = message;
}

/* The run did not end by itself. */
static bool was_ended(const struct husk_result *run, struct sandbox_outcome *o)
{
    const char *detail = run->termination.detail;
    const char *limit = run->termination.limit;
    const char *reason = limit[0] != '\0' ? limit : detail;

    switch (run->status) {
    case HUSK_TIMEOUT:
        set_error(o, SANDBOX_TIMEOUT, "Timeout", reason[0] != '\0' ? reason : "time limit reached");
        return true;
    case HUSK_MEMORY_EXCEEDED:
        set_error(o, SANDBOX_ERROR, "MemoryExceeded", reason[0] != '\0' ? reason : "out of memory");
        return true;
    case HUSK_CRASHED:
        set_error(o, SANDBOX_ERROR, "Crashed", detail[0] != '\0' ? detail : "the handler crashed");
        return true;
    case HUSK_COMPLETED:
    case HUSK_FAILED:
    case HUSK_CANCELLED:
        break;
    }
    return false;
}

struct sandbox_outcome sandbox_outcome_of(const struct husk_result *run)
{
    struct sandbox_outcome o = {.code = SANDBOX_OK, .run = run, .error_message = ""};

    if (was_ended(run, &o)) {
        return o;
    }
    if (run->error.type != NULL) {
        set_error(&o, is_load_error(run) ? SANDBOX_CODE : SANDBOX_ERROR, run->error.type,
                  run->error.message != NULL ? run->error.message : "");
        return o;
    }
    if (run->status != HUSK_COMPLETED && run->termination.cause != HUSK_CAUSE_EXIT) {
        const char *limit = run->termination.limit;
        set_error(&o, SANDBOX_ERROR, "Stopped", limit[0] != '\0' ? limit : run->termination.detail);
        return o;
    }
    if (run->status != HUSK_COMPLETED || run->value == NULL) {
        set_error(&o, SANDBOX_ERROR, "HandlerExited",
                  "the handler ended the program instead of returning");
        return o;
    }
    if (run->value_json == NULL || !json_text_is_valid(run->value_json, strlen(run->value_json))) {
        set_error(&o, SANDBOX_ERROR, "NotSerializable",
                  "the handler returned a value that JSON cannot express");
        return o;
    }
    o.value_json = run->value_json;
    return o;
}
