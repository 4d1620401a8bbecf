/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handlers of /api/v1 that start an execution: execute and execute-sync; execute-stream is in
 * events.c. See execute.h.
 *
 * What runs is decided by which field is there (see the head of api/v1.yaml). What the code did is
 * in the result, never in the HTTP status.
 */
#include "api/v1/execute.h"

#include "api/v1/shape.h"
#include "base/str.h"

/*
 * A context that is not there is the caller's mistake; once started, it would be a failed
 * execution. *ret_language: what it runs; NULL if there is none yet.
 */
static int check_context(struct session *s, uint32_t context, const char **ret_language,
                         struct err *e)
{
    struct session_context list[CONTEXTS_MAX];
    size_t n = session_contexts(s, list);

    *ret_language = NULL;
    for (size_t i = 0; i < n; i++) {
        if (list[i].id == context && !list[i].is_checkpoint) {
            *ret_language = list[i].language;
            return 0;
        }
    }
    /* None at all: an ephemeral session, or one whose box is made by the first execution. */
    return n == 0 && context == 0
               ? 0
               : err_set(e, ERR_NOT_FOUND, "session %s has no context %u", session_id(s), context);
}

/*
 * Which context it is, and its language: the chosen one, or the first of the language that was
 * asked for. Commands have a context of their own.
 */
static int choose_context(struct session *s, const json_t *body, struct execution_ask *ask,
                          struct err *e)
{
    const json_t *chosen = json_object_get(body, "context_id");
    const char *asked = json_string_value(json_object_get(body, "language"));
    bool is_persistent = str_eq(session_view(s).mode, "persistent");
    const char *has;

    if (is_persistent && chosen == NULL && asked != NULL &&
        session_context_for(s, asked, &ask->context, e) < 0) {
        return -1;
    }
    if (check_context(s, ask->context, &has, e) < 0) {
        return -1;
    }
    if (ask->kind == EXECUTE_COMMAND) {
        return 0;
    }
    if (has != NULL && asked != NULL && !str_eq(has, asked)) {
        return err_set(e, ERR_CONFLICT, "context %u is %s, not %s", ask->context, has, asked);
    }
    ask->language = has != NULL ? has : ask->language;
    return ask->language != NULL
               ? 0
               : err_set(e, ERR_CONFLICT, "template %s of the session is no longer there",
                         session_view(s).template);
}

static int start(struct api_call *call, struct session *s, const struct request_key *key,
                 struct execution **ret, struct err *e)
{
    AUTO(execution_request_release) struct execution_request r = {0};
    bool existed = false;

    if (execution_request_read(call_service(call), call_body(call), session_language(s), &r, e) <
            0 ||
        choose_context(s, call_body(call), &r.ask, e) < 0) {
        return -1;
    }
    /* Recorded: should it be started by a successor, its context is the same. */
    json_object_set_new(r.kept, "context_id", json_integer(r.ask.context));
    r.ask.client = call_client(call);
    r.ask.idempotency = *key;
    /* A client that waits for the result is promised nothing before it: one write is enough. */
    r.ask.record_at_end = call_op(call) == API_V1_EXECUTE_SYNC;
    return execution_start(s, &r.ask, ret, &existed, e);
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
                    json_pack("{s:s, s:s, s:s, s:s, s:o, s:o}", "id", r.id, "execution_id", r.id,
                              "session_id", r.session_id, "status", execution_state_word(r.state),
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
