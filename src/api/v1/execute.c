/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handlers of /api/v1 that start an execution: execute and execute-sync; execute-stream is in
 * events.c. See execute.h.
 *
 * What runs is decided by which field is there (see the head of api/v1.yaml). What the code did is
 * in the result, never in the HTTP status.
 */
#include "api/v1/execute.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/v1/shape.h"
#include "base/str.h"

#define HANDLER_TIMEOUT_MS 300000 /* of an event without a usable __timeout */

/* In ms. `__timeout` of an event wins over `timeout`; both may be absent. */
static uint64_t timeout_of(const struct service *svc, const json_t *body, bool is_handler)
{
    const json_t *own = json_object_get(json_object_get(body, "event"), "__timeout");
    const json_t *asked = json_object_get(body, "timeout");

    if (is_handler && json_is_number(own)) {
        double ms = json_number_value(own) * 1000.0;
        if (!(ms > 0)) {
            return HANDLER_TIMEOUT_MS;
        }
        return ms > HANDLER_TIMEOUT_MAX_MS ? HANDLER_TIMEOUT_MAX_MS
                                           : MAX((uint64_t)ms, (uint64_t)1);
    }
    if (asked != NULL) {
        return (uint64_t)json_integer_value(asked) * 1000;
    }
    return is_handler ? HANDLER_TIMEOUT_MS : service_config(svc)->execution_timeout_ms;
}

static void set_kind(const json_t *body, struct execution_ask *ask)
{
    static const struct {
        const char *field;
        enum execution_kind kind;
    } kinds[] = {
        {"code", EXECUTE_CODE}, {"command", EXECUTE_COMMAND}, {"handler_code", EXECUTE_HANDLER}};

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        json_t *code = json_object_get(body, kinds[i].field);
        if (code != NULL) {
            ask->kind = kinds[i].kind;
            ask->code = json_string_value(code);
            ask->code_len = json_string_length(code);
        }
    }
    if (ask->kind == EXECUTE_CODE && json_object_get(body, "event") != NULL) {
        ask->kind = EXECUTE_HANDLER;
    }
}

/* Strings borrowed from the array; the list itself is owned. NULL for an empty one. */
static const char **args_of(const json_t *array)
{
    size_t n = json_array_size(array);
    const char **list = n > 0 ? calloc(n + 1, sizeof(*list)) : NULL;

    for (size_t i = 0; i < n && list != NULL; i++) {
        list[i] = json_string_value(json_array_get(array, i));
    }
    return list;
}

/* The request as it is kept: with the time limit that applies, rounded up to seconds. */
static json_t *request_of(const json_t *body, uint64_t timeout_ms)
{
    json_t *request = json_copy((json_t *)body); /* shares the values */

    json_object_set_new(request, "timeout", json_integer((json_int_t)((timeout_ms + 999) / 1000)));
    return request;
}

/* Everything that ask borrows. */
struct borrowed {
    char **env;
    const char **args;
    char *event;
    char *context;
    json_t *request;
};

static void borrowed_release(struct borrowed *b)
{
    free(b->env);
    free(b->args);
    free(b->event);
    free(b->context);
    json_decref(b->request);
}

/*
 * A context that is not there is the caller's mistake; once started, it would be a failed
 * execution.
 */
static int check_context(struct session *s, uint32_t context, struct err *e)
{
    struct session_context list[CONTEXTS_MAX];
    size_t n = session_contexts(s, list);

    for (size_t i = 0; i < n; i++) {
        if (list[i].id == context && !list[i].is_checkpoint) {
            return 0;
        }
    }
    /* None at all: an ephemeral session, or one whose box is made by the first execution. */
    return n == 0 && context == 0
               ? 0
               : err_set(e, ERR_NOT_FOUND, "session %s has no context %u", session_id(s), context);
}

static int fill_ask(struct api_call *call, struct session *s, struct borrowed *b,
                    struct execution_ask *ask, struct err *e)
{
    const char *language = session_language(s);
    const json_t *body = call_body(call);
    const json_t *event = json_object_get(body, "event");
    const json_t *context = json_object_get(body, "context");

    set_kind(body, ask);
    ask->timeout_ms = timeout_of(call_service(call), body, ask->kind == EXECUTE_HANDLER);
    b->request = request_of(body, ask->timeout_ms);
    b->env = v1_env(json_object_get(body, "env_vars"), e);
    b->args = args_of(json_object_get(body, "args"));
    b->event = event != NULL ? json_dumps(event, JSON_COMPACT) : NULL;
    b->context = context != NULL ? json_dumps(context, JSON_COMPACT) : NULL;
    if (b->env == NULL || b->request == NULL || (event != NULL && b->event == NULL) ||
        (context != NULL && b->context == NULL)) {
        return err_sys(e, ENOMEM, "take the request");
    }
    ask->language = json_string_value(json_object_get(body, "language"));
    if (ask->language == NULL && ask->kind != EXECUTE_COMMAND) {
        ask->language = language;
        if (language == NULL) {
            return err_set(e, ERR_CONFLICT, "template %s of the session is no longer there",
                           session_view(s).template);
        }
    }
    ask->env = (const char *const *)b->env;
    ask->args = b->args;
    ask->stdin_data = json_string_value(json_object_get(body, "stdin"));
    ask->stdin_len = json_string_length(json_object_get(body, "stdin"));
    ask->event = b->event;
    ask->context_json = b->context;
    ask->context = (uint32_t)json_integer_value(json_object_get(body, "context_id"));
    ask->rich = ask->kind == EXECUTE_CODE && str_eq(ask->language, "python");
    ask->request = b->request;
    return 0;
}

static int start(struct api_call *call, struct session *s, const struct request_key *key,
                 struct execution **ret, struct err *e)
{
    AUTO(borrowed_release) struct borrowed b = {0};
    /* A client that waits for the result is promised nothing before it: one write is enough. */
    bool waits = call_op(call) == API_V1_EXECUTE_SYNC;
    struct execution_ask ask = {.idempotency = *key, .record_at_end = waits};
    bool existed = false;

    return fill_ask(call, s, &b, &ask, e) < 0 || check_context(s, ask.context, e) < 0
               ? -1
               : execution_start(s, &ask, ret, &existed, e);
}

void v1_key_scope(struct api_call *call, char ret[static V1_KEY_SCOPE_MAX])
{
    (void)str_format(ret, V1_KEY_SCOPE_MAX, "v1.execute/%s", call_text(call, "session_id"));
}

int v1_execute_start(struct api_call *call, struct execution_entry *ret)
{
    struct service *svc = call_service(call);
    char scope[V1_KEY_SCOPE_MAX];
    char known[SERVICE_ID_SIZE];
    struct err e = {0};

    v1_key_scope(call, scope);
    const struct request_key key = v1_key(call, scope);
    AUTO_SESSION struct session *s = session_hold(svc, call_text(call, "session_id"), &e);
    if (s != NULL && start(call, s, &key, &ret->live, &e) == 0) {
        return 0;
    }
    /* A repeated request is answered also when the session takes no more work. */
    if (service_key_used(svc, &key, known) && execution_open(svc, known, ret, &e) == 0) {
        return 0;
    }
    if (e.code == ERR_NOT_FOUND) {
        v1_reply_err(call, &e, s == NULL ? V1_SESSION : V1_CONTEXT);
    } else {
        call_reply_unbegun(call, &e);
    }
    return -1;
}

void api_v1_execute(struct api_call *call)
{
    AUTO_EXECUTION struct execution_entry it = {0};

    if (v1_execute_start(call, &it) < 0) {
        return;
    }
    const struct execution_view r = execution_view(&it);
    size_t place = it.live != NULL ? execution_queue_position(it.live) : 0;
    call_reply_json(call, 201,
                    json_pack("{s:s, s:s, s:s, s:o, s:o}", "execution_id", r.id, "session_id",
                              r.session_id, "status", execution_state_word(r.state),
                              "queue_position",
                              place > 0 ? json_integer((json_int_t)place) : json_null(),
                              "created_at", v1_time(r.created_ms)));
}

void api_v1_execute_sync(struct api_call *call)
{
    int64_t patience = call_int(call, "sync_timeout", 300);
    char detail[SERVICE_ID_SIZE + 64];
    AUTO_EXECUTION struct execution_entry it = {0};

    if (v1_execute_start(call, &it) < 0) {
        return;
    }
    if (it.live != NULL && execution_wait(it.live, patience * 1000) < 0) {
        struct err e = {0};
        if (execution_record_now(it.live, &e) < 0) {
            v1_reply_err(call, &e, V1_OTHER);
            return;
        }
        const struct execution_view r = execution_view(&it);
        if (!execution_state_is_final(r.state)) {
            (void)str_format(detail, sizeof(detail), "%s is still %s after %lld s", r.id,
                             execution_state_word(r.state), (long long)patience);
            call_reply_error(call, 408, "Sandbox.RequestTimeout",
                             "The result did not come in time.", detail,
                             "Follow it with GET /api/v1/executions/{execution_id}/events.");
            return;
        }
    }
    if (it.live != NULL && !execution_is_durable(it.live)) {
        struct err e;
        (void)err_set(&e, ERR_STORAGE, "the result could not be written");
        v1_reply_err(call, &e, V1_OTHER);
        return;
    }
    struct run_fault fault;
    if (execution_fault(&it, &fault)) {
        call_reply_fault(call, &fault, execution_view(&it).id);
        return;
    }
    call_reply_json(call, 200, v1_execution_json(&it));
}
