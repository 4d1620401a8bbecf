/* SPDX-License-Identifier: Apache-2.0 */
/* Executions as JSON; see shape.h. */
#include "api/v1/shape.h"

enum fallback { NONE, EMPTY_TEXT, NO, EMPTY_LIST };

/*
 * The members of a recorded result that /api/v1 shows, with what stands there until there is one.
 * Whatever else a record keeps for itself stays inside.
 */
static const struct {
    const char *name;
    enum fallback fallback;
} result_members[] = {
    {"exit_code", NONE},      {"stdout", EMPTY_TEXT},   {"stderr", EMPTY_TEXT},
    {"stdout_truncated", NO}, {"stderr_truncated", NO}, {"value", NONE},
    {"return_value", NONE},   {"error", NONE},          {"termination", NONE},
    {"outputs", EMPTY_LIST},  {"outputs_dropped", NO},  {"artifacts", EMPTY_LIST},
    {"metrics", NONE},        {"receipt", NONE},        {"context_restarted", NO},
    {"restart_reason", NONE},
};

static json_t *fallback_json(enum fallback f)
{
    switch (f) {
    case NONE:
        break;
    case EMPTY_TEXT:
        return json_string("");
    case NO:
        return json_false();
    case EMPTY_LIST:
        return json_array();
    }
    return json_null();
}

static void set_result(json_t *to, const json_t *result)
{
    for (size_t i = 0; i < ARRAY_LEN(result_members); i++) {
        json_t *value = json_object_get(result, result_members[i].name);
        if (value != NULL) {
            json_object_set(to, result_members[i].name, value);
        } else {
            json_object_set_new(to, result_members[i].name,
                                fallback_json(result_members[i].fallback));
        }
    }
    const char *backend =
        json_string_value(json_object_get(json_object_get(result, "receipt"), "backend"));
    if (backend != NULL && backend[0] == '\0') { /* nothing ran, so nothing was enforced */
        json_object_set_new(to, "receipt", json_null());
    }
    json_t *duration = json_object_get(json_object_get(result, "metrics"), "duration_ms");
    json_object_set_new(to, "execution_time",
                        duration != NULL ? json_real(json_number_value(duration) / 1000.0)
                                         : json_null());
}

/* What was run: code, command or handler_code, whichever the request has. */
static void set_request(json_t *to, const struct execution_entry *it)
{
    static const char *const names[] = {"code", "command", "handler_code"};
    const struct execution_view r = execution_view(it);
    json_t *request = execution_request(it);
    json_t *code = NULL;

    for (size_t i = 0; i < ARRAY_LEN(names) && code == NULL; i++) {
        code = json_object_get(request, names[i]);
    }
    json_object_set_new(to, "kind", json_string(r.kind));
    if (r.language[0] != '\0') {
        json_object_set_new(to, "language", json_string(r.language));
    }
    json_object_set_new(to, "code", code != NULL ? json_incref(code) : json_null());
    json_t *timeout = json_object_get(request, "timeout");
    if (timeout != NULL) {
        json_object_set(to, "timeout", timeout);
    }
    json_t *context = json_object_get(request, "context_id");
    json_object_set_new(to, "context_id", context != NULL ? json_incref(context) : json_integer(0));
    json_decref(request);
}

static json_t *head_json(const struct execution_entry *it)
{
    const struct execution_view r = execution_view(it);
    size_t place = it->live != NULL ? execution_queue_position(it->live) : 0;
    json_t *to = json_pack("{s:s, s:s, s:s, s:s}", "id", r.id, "execution_id", r.id, "session_id",
                           r.session_id, "status", execution_state_word(r.state));

    if (to != NULL) {
        json_object_set_new(to, "queue_position",
                            place > 0 ? json_integer((json_int_t)place) : json_null());
        json_object_set_new(to, "created_at", v1_time(r.created_ms));
        json_object_set_new(to, "started_at", v1_time(r.started_ms));
        json_object_set_new(to, "completed_at", v1_time(r.ended_ms));
    }
    return to;
}

json_t *v1_execution_state_json(const struct execution_entry *it)
{
    json_t *to = head_json(it);
    int64_t code = 0;
    bool is_known = execution_exit_code(it, &code);

    json_object_set_new(to, "exit_code", is_known ? json_integer(code) : json_null());
    return to;
}

/* In the words of an answer: the recorded message may name things of the host. */
static void set_fault(json_t *to, const struct execution_entry *it)
{
    struct run_fault fault;

    if (!execution_fault(it, &fault)) {
        json_object_set_new(to, "fault", json_null());
        return;
    }
    json_t *words = call_fault_json(&fault);
    json_object_set_new(to, "error",
                        json_pack("{s:s, s:O, s:n}", "type", err_type(fault.err.code), "message",
                                  json_object_get(words, "error_detail"), "traceback"));
    json_object_set_new(to, "fault", words);
}

json_t *v1_execution_json(const struct execution_entry *it)
{
    json_t *to = head_json(it);
    json_t *result = execution_outcome(it);

    set_request(to, it);
    set_result(to, result);
    set_fault(to, it);
    json_decref(result);
    return to;
}
