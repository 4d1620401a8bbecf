/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handlers of /api/v1 for executions that exist: look up, list, cancel, withdraw. Starting one is
 * execute.c, following one live events.c.
 */
#include <errno.h>
#include <string.h>

#include "api/v1/execute.h"
#include "api/v1/shape.h"
#include "base/clock.h"
#include "base/str.h"

#define CANCEL_PATIENCE_MS 30000

/* ---- look up ---- */

int v1_execution_open(struct service *svc, const char *id, struct v1_execution *ret, struct err *e)
{
    struct v1_execution it = {.x = execution_hold(svc, id)};

    if (it.x != NULL) {
        it.record = execution_record(it.x);
    } else if (store_get_execution(service_store(svc), id, &it.row, e) < 0) {
        return -1;
    } else {
        it.record = it.row;
    }
    *ret = it;
    return 0;
}

void v1_execution_close(struct v1_execution *it)
{
    if (it->x != NULL) {
        execution_release(it->x);
    }
    free(it->row);
}

static void reply_execution(struct api_call *call, const char *id, bool with_output)
{
    AUTO_V1_EXECUTION struct v1_execution it = {0};
    struct err e = {0};

    if (v1_execution_open(call_service(call), id, &it, &e) < 0) {
        v1_reply_err(call, &e, V1_EXECUTION);
        return;
    }
    call_reply_json(call, 200,
                    with_output ? v1_execution_json(it.record, it.x)
                                : v1_execution_state_json(it.record, it.x));
}

void api_v1_execution_get(struct api_call *call)
{
    reply_execution(call, call_text(call, "execution_id"), true);
}

void api_v1_execution_result(struct api_call *call)
{
    reply_execution(call, call_text(call, "execution_id"), true);
}

void api_v1_execution_status(struct api_call *call)
{
    reply_execution(call, call_text(call, "execution_id"), false);
}

static int take_id(void *user, const struct store_execution *x, struct err *e)
{
    (void)e;
    (void)str_copy(user, STORE_ID_MAX + 1, x->id);
    return 0;
}

/* The latest execution of the session, or the named one if it is of this session. */
static int session_execution(struct api_call *call, char ret[static STORE_ID_MAX + 1],
                             struct err *e)
{
    struct service *svc = call_service(call);
    const char *session_id = call_text(call, "session_id");
    const char *id = call_text(call, "execution_id");
    struct store_filter latest = {.session_id = session_id, .limit = 1};
    AUTO_V1_EXECUTION struct v1_execution it = {0};

    ret[0] = '\0';
    if (id == NULL) {
        if (store_each_execution(service_store(svc), &latest, take_id, ret, e) < 0) {
            return -1;
        }
        return ret[0] != '\0'
                   ? 0
                   : err_set(e, ERR_NOT_FOUND, "no execution in a session \"%s\"", session_id);
    }
    if (v1_execution_open(svc, id, &it, e) < 0) {
        return -1;
    }
    if (!str_eq(it.record->session_id, session_id)) {
        return err_set(e, ERR_NOT_FOUND, "no execution \"%s\" in session \"%s\"", id, session_id);
    }
    return str_copy(ret, STORE_ID_MAX + 1, id);
}

static void reply_of_session(struct api_call *call, bool with_output)
{
    char id[STORE_ID_MAX + 1];
    struct err e = {0};

    if (session_execution(call, id, &e) < 0) {
        v1_reply_err(call, &e, V1_EXECUTION);
        return;
    }
    reply_execution(call, id, with_output);
}

void api_v1_session_execution_status(struct api_call *call)
{
    reply_of_session(call, false);
}

void api_v1_session_execution_result(struct api_call *call)
{
    reply_of_session(call, true);
}

/* ---- list ---- */

struct listing {
    struct service *svc;
    json_t *items;
};

static int list_one(void *user, const struct store_execution *row, struct err *e)
{
    struct listing *l = user;
    AUTO_EXECUTION struct execution *x =
        row->ended_ms == 0 ? execution_hold(l->svc, row->id) : NULL;

    json_t *item = v1_execution_state_json(x != NULL ? execution_record(x) : row, x);
    return json_array_append_new(l->items, item) < 0 ? err_sys(e, ENOMEM, "list executions") : 0;
}

/*
 * Row by row, for a page of records with all their output would be large. How many there are
 * altogether is asked for by a page behind the last one.
 */
static int list_executions(struct api_call *call, struct listing *l, int64_t *ret_total,
                           struct err *e)
{
    struct store *st = service_store(l->svc);
    const char *word = call_text(call, "status");
    int status = word != NULL ? execution_state_find(word) : 0;
    struct store_filter filter = {
        .session_id = call_text(call, "session_id"),
        .status = word != NULL ? &status : NULL,
        .limit = (size_t)call_int(call, "limit", 0),
        .offset = (size_t)call_int(call, "offset", 0),
    };
    struct store_filter behind = filter;
    AUTO(store_execution_list_release) struct store_execution_list none = {0};

    behind.limit = 1;
    behind.offset = INT32_MAX;
    if (store_list_executions(st, &behind, &none, e) < 0 ||
        store_each_execution(st, &filter, list_one, l, e) < 0) {
        return -1;
    }
    *ret_total = none.total;
    return 0;
}

void api_v1_execution_list(struct api_call *call)
{
    struct listing l = {.svc = call_service(call), .items = json_array()};
    AUTO_FREE struct store_session *session = NULL;
    int64_t total = 0;
    struct err e = {0};

    if (store_get_session(service_store(l.svc), call_text(call, "session_id"), &session, &e) < 0 ||
        list_executions(call, &l, &total, &e) < 0) {
        json_decref(l.items);
        v1_reply_err(call, &e, V1_SESSION);
        return;
    }
    call_reply_json(call, 200, v1_page(call, l.items, total));
}

/* ---- cancel ---- */

void api_v1_execution_cancel(struct api_call *call)
{
    AUTO_V1_EXECUTION struct v1_execution it = {0};
    struct err e = {0};

    if (v1_execution_open(call_service(call), call_text(call, "execution_id"), &it, &e) < 0) {
        v1_reply_err(call, &e, V1_EXECUTION);
        return;
    }
    if (it.x != NULL) {
        execution_cancel(it.x);
        if (execution_wait(it.x, CANCEL_PATIENCE_MS) < 0) {
            (void)err_set(&e, ERR_TIMEOUT, "execution \"%s\" has not ended yet", it.record->id);
            call_reply_err(call, &e);
            return;
        }
        if (!execution_is_durable(it.x)) {
            (void)err_set(&e, ERR_STORAGE, "the result could not be written");
            v1_reply_err(call, &e, V1_OTHER);
            return;
        }
    }
    call_reply_json(call, 200, v1_execution_json(it.record, it.x));
}

/* ---- withdraw ---- */

/* 0: the key is ours, so that nothing can begin with it; 1: *ret_id has it; -1. */
static int take_key(struct api_call *call, char ret_id[static STORE_ID_MAX + 1], struct err *e)
{
    struct service *svc = call_service(call);
    struct store_batch *b = store_batch_new(service_store(svc));
    char scope[V1_KEY_SCOPE_MAX];
    struct store_result result;

    v1_key_scope(call, scope);
    struct store_key key = {.scope = scope,
                            .key = call_text(call, "idempotency-key"),
                            .id = "",
                            .created_ms = clock_wall_ms()};
    memcpy(key.hash, call_body_hash(call), sizeof(key.hash));
    if (b == NULL) {
        return err_sys(e, ENOMEM, "key");
    }
    store_claim_key(b, &key);
    if (service_commit(svc, b, &result, e) == 0) {
        return 0;
    }
    if (result.outcome != STORE_KEY_TAKEN) {
        return -1;
    }
    (void)str_copy(ret_id, STORE_ID_MAX + 1, result.holder_id);
    return ret_id[0] != '\0'; /* none: it was withdrawn before */
}

static int withdraw(struct api_call *call, struct v1_execution *ret, struct err *e)
{
    char id[STORE_ID_MAX + 1];
    int r = take_key(call, id, e);

    if (r == 1) {
        r = v1_execution_open(call_service(call), id, ret, e);
    }
    return r == 0 && ret->x != NULL ? execution_stop(ret->x, CANCEL_PATIENCE_MS, e) : r;
}

void api_v1_execution_withdraw(struct api_call *call)
{
    AUTO_V1_EXECUTION struct v1_execution it = {0};
    const char *session_id = call_text(call, "session_id");
    struct err e = {0};

    AUTO_SESSION struct session *s = session_hold(call_service(call), session_id, &e);
    if (s == NULL || withdraw(call, &it, &e) < 0) {
        v1_reply_err(call, &e, s == NULL ? V1_SESSION : V1_OTHER);
        return;
    }
    const struct store_execution *r = it.record;
    call_reply_json(call, 200,
                    json_pack("{s:s, s:s?, s:s?}", "session_id", session_id, "execution_id",
                              r != NULL ? r->id : NULL, "status",
                              r != NULL ? execution_state_word(r->status) : NULL));
}
