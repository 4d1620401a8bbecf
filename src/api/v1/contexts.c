/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handlers of /api/v1 for the contexts of a persistent session: interrupt, reset, create, list,
 * checkpoint, restore, branch.
 *
 * A context is one live interpreter. Which of them exist, and whether they are busy, is the
 * service's to know.
 */
#include "api/v1/shape.h"
#include "base/clock.h"

static json_t *running_in(const struct session *s, uint32_t context)
{
    const char *id = session_running(s, context);

    return id != NULL ? json_string(id) : json_null();
}

static json_t *context_json(struct session *s, uint32_t id, bool is_busy)
{
    json_t *to = json_pack("{s:s, s:I, s:s, s:o}", "session_id", session_id(s), "context_id",
                           (json_int_t)id, "state", is_busy ? "running" : "idle", "execution_id",
                           is_busy ? running_in(s, id) : json_null());
    const char *language = session_context_language(s, id);

    if (language != NULL) {
        json_object_set_new(to, "language", json_string(language));
    }
    return to;
}

/* Of the body where there is one, else of the path. */
static uint32_t context_of(struct api_call *call)
{
    json_t *chosen = json_object_get(call_body(call), "context_id");

    return chosen != NULL ? (uint32_t)json_integer_value(chosen)
                          : (uint32_t)call_int(call, "context_id", 0);
}

void api_v1_session_interrupt(struct api_call *call)
{
    uint32_t context = context_of(call);
    bool was_running = false;
    struct err e = {0};

    AUTO_SESSION struct session *s = v1_hold_session(call);
    if (s == NULL) {
        return;
    }
    json_t *execution = running_in(s, context); /* before: it may be over right after */
    if (session_interrupt(s, context, &was_running, &e) < 0) {
        json_decref(execution);
        v1_reply_err(call, &e, V1_CONTEXT);
        return;
    }
    if (!was_running) {
        json_decref(execution);
        execution = json_null();
    }
    call_reply_json(call, 200,
                    json_pack("{s:s, s:I, s:b, s:o}", "session_id", session_id(s), "context_id",
                              (json_int_t)context, "interrupted", (int)was_running, "execution_id",
                              execution));
}

void api_v1_session_reset(struct api_call *call)
{
    uint32_t context = context_of(call);
    struct err e = {0};

    AUTO_SESSION struct session *s = v1_hold_session(call);
    if (s == NULL) {
        return;
    }
    if (session_reset(s, context, &e) < 0) {
        v1_reply_err(call, &e, V1_CONTEXT);
        return;
    }
    call_reply_json(call, 200, context_json(s, context, false));
}

void api_v1_context_list(struct api_call *call)
{
    struct session_context list[CONTEXTS_MAX];

    AUTO_SESSION struct session *s = v1_hold_session(call);
    if (s == NULL) {
        return;
    }
    size_t n = session_contexts(s, list);
    json_t *items = json_array();
    json_t *checkpoints = json_array();
    for (size_t i = 0; i < n; i++) {
        if (list[i].is_checkpoint) {
            json_array_append_new(checkpoints, json_pack("{s:s, s:I}", "session_id", session_id(s),
                                                         "checkpoint_id", (json_int_t)list[i].id));
        } else {
            json_array_append_new(items, context_json(s, list[i].id, list[i].is_busy));
        }
    }
    call_reply_json(call, 200, json_pack("{s:o, s:o}", "items", items, "checkpoints", checkpoints));
}

void api_v1_context_create(struct api_call *call)
{
    uint32_t made = 0;
    struct err e = {0};

    AUTO_SESSION struct session *s = v1_hold_session(call);
    if (s == NULL) {
        return;
    }
    const char *language = json_string_value(json_object_get(call_body(call), "language"));
    if (session_new_context(s, language, &made, &e) < 0) {
        v1_reply_err(call, &e, V1_CONTEXT);
        return;
    }
    json_t *body = context_json(s, made, false);
    json_object_set_new(body, "created_at", v1_time(clock_wall_ms()));
    call_reply_json(call, 201, body);
}

void api_v1_context_checkpoint(struct api_call *call)
{
    uint32_t context = context_of(call);
    uint32_t checkpoint = 0;
    struct err e = {0};

    AUTO_SESSION struct session *s = v1_hold_session(call);
    if (s == NULL) {
        return;
    }
    if (session_checkpoint(s, context, &checkpoint, &e) < 0) {
        v1_reply_err(call, &e, V1_CONTEXT);
        return;
    }
    call_reply_json(call, 201,
                    json_pack("{s:s, s:I, s:I, s:o}", "session_id", session_id(s), "context_id",
                              (json_int_t)context, "checkpoint_id", (json_int_t)checkpoint,
                              "created_at", v1_time(clock_wall_ms())));
}

void api_v1_context_restore(struct api_call *call)
{
    uint32_t context = context_of(call);
    int64_t checkpoint = json_integer_value(json_object_get(call_body(call), "checkpoint_id"));
    struct err e = {0};

    AUTO_SESSION struct session *s = v1_hold_session(call);
    if (s == NULL) {
        return;
    }
    if (session_restore(s, context, (uint32_t)checkpoint, &e) < 0) {
        v1_reply_err(call, &e, V1_CONTEXT);
        return;
    }
    call_reply_json(call, 200, context_json(s, context, false));
}

void api_v1_context_branch(struct api_call *call)
{
    uint32_t context = context_of(call);
    uint32_t made = 0;
    struct err e = {0};

    AUTO_SESSION struct session *s = v1_hold_session(call);
    if (s == NULL) {
        return;
    }
    if (session_branch(s, context, &made, &e) < 0) {
        v1_reply_err(call, &e, V1_CONTEXT);
        return;
    }
    json_t *body = context_json(s, made, false);
    json_object_set_new(body, "parent_id", json_integer(context));
    json_object_set_new(body, "created_at", v1_time(clock_wall_ms()));
    call_reply_json(call, 201, body);
}
