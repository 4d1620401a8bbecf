/* SPDX-License-Identifier: Apache-2.0 */
/* Executions as JSON; see shape.h. */
#include <stdlib.h>

#include "api/v1/shape.h"

/*
 * The members of a stored result that /api/v1 shows, with what stands there until there is one.
 * Whatever else a record keeps for itself stays inside.
 */
static const struct {
    const char *name;
    const char *fallback; /* JSON */
} result_members[] = {
    {"exit_code", "null"},
    {"stdout", "\"\""},
    {"stderr", "\"\""},
    {"stdout_truncated", "false"},
    {"stderr_truncated", "false"},
    {"value", "null"},
    {"return_value", "null"},
    {"error", "null"},
    {"termination", "null"},
    {"outputs", "[]"},
    {"outputs_dropped", "false"},
    {"artifacts", "[]"},
    {"metrics", "null"},
    {"receipt", "null"},
};

/* What has arrived so far, in the shape of a result. */
static json_t *result_so_far(struct execution *x)
{
    struct execution_position start = {.state = -1};
    struct execution_news news = {0};
    static char nothing[1];

    (void)execution_news(x, &start, &news);
    struct husk_result r = {
        .out = news.out != NULL ? (char *)news.out : nothing,
        .out_len = news.out_len,
        .err = news.err != NULL ? (char *)news.err : nothing,
        .err_len = news.err_len,
        .displays = (struct husk_display *)news.displays,
        .n_displays = news.n_displays,
    };
    json_t *result = result_json(&r);
    json_object_set_new(result, "exit_code", json_null());
    json_object_set_new(result, "termination", json_null());
    json_object_set_new(result, "metrics", json_null());
    json_object_set_new(result, "receipt", json_null());
    return result;
}

json_t *v1_output_json(const struct husk_display *display)
{
    static char nothing[1];
    struct husk_result r = {
        .out = nothing,
        .err = nothing,
        .displays = (struct husk_display *)display,
        .n_displays = 1,
    };
    json_t *result = result_json(&r);
    json_t *output = json_incref(json_array_get(json_object_get(result, "outputs"), 0));

    json_decref(result);
    return output;
}

static void set_result(json_t *to, const json_t *result)
{
    for (size_t i = 0; i < ARRAY_LEN(result_members); i++) {
        json_t *value = json_object_get(result, result_members[i].name);
        if (value != NULL) {
            json_object_set(to, result_members[i].name, value);
        } else {
            json_object_set_new(to, result_members[i].name,
                                json_loads(result_members[i].fallback, JSON_DECODE_ANY, NULL));
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
static void set_request(json_t *to, const struct store_execution *r)
{
    static const char *const names[] = {"code", "command", "handler_code"};
    json_t *request = json_loads(r->request, JSON_ALLOW_NUL, NULL);
    json_t *code = NULL;

    for (size_t i = 0; i < ARRAY_LEN(names) && code == NULL; i++) {
        code = json_object_get(request, names[i]);
    }
    json_object_set_new(to, "kind", json_string(r->kind));
    if (r->language[0] != '\0') {
        json_object_set_new(to, "language", json_string(r->language));
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

static json_t *head_json(const struct store_execution *r, struct execution *x)
{
    size_t place = x != NULL ? execution_queue_position(x) : 0;
    json_t *to = json_pack("{s:s, s:s, s:s, s:s}", "id", r->id, "execution_id", r->id, "session_id",
                           r->session_id, "status", execution_state_word(r->status));

    if (to != NULL) {
        json_object_set_new(to, "queue_position",
                            place > 0 ? json_integer((json_int_t)place) : json_null());
        json_object_set_new(to, "created_at", v1_time(r->created_ms));
        json_object_set_new(to, "started_at", v1_time(r->started_ms));
        json_object_set_new(to, "completed_at", v1_time(r->ended_ms));
    }
    return to;
}

json_t *v1_execution_state_json(const struct store_execution *r, struct execution *x)
{
    json_t *to = head_json(r, x);
    int64_t code = 0;
    bool is_known = r->result != NULL && v1_member_int(r->result, "exit_code", &code);

    json_object_set_new(to, "exit_code", is_known ? json_integer(code) : json_null());
    return to;
}

json_t *v1_execution_json(const struct store_execution *r, struct execution *x)
{
    json_t *to = head_json(r, x);
    json_t *result = NULL;

    if (r->result != NULL) {
        result = json_loads(r->result, JSON_ALLOW_NUL, NULL);
    } else if (x != NULL && !execution_state_is_final(r->status)) {
        result = result_so_far(x);
    }
    set_request(to, r);
    set_result(to, result);
    json_decref(result);
    return to;
}
