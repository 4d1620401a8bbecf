/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handlers of /api/v1 for executions: start, wait, look up, list, cancel. Following one live is v1_events.c.
 *
 * What runs is decided by which field is there (see the head of api/v1.yaml). What the code did is in the result, never
 * in the HTTP status.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/v1_execute.h"
#include "api/v1_shape.h"
#include "base/str.h"

#define HANDLER_TIMEOUT_S 300      /* of an event without a usable __timeout */
#define HANDLER_TIMEOUT_MAX_S 3600 /* and the most it may ask for */
#define CANCEL_PATIENCE_MS 30000

/* ---- start ---- */

/* In ms. `__timeout` of an event wins over `timeout`; both may be absent. */
static uint64_t timeout_of(const struct service *svc, const json_t *body, bool is_handler)
{
    const json_t *own = json_object_get(json_object_get(body, "event"), "__timeout");
    const json_t *asked = json_object_get(body, "timeout");

    if (is_handler && json_is_number(own)) {
        double seconds = json_number_value(own);
        if (!(seconds > 0)) {
            return HANDLER_TIMEOUT_S * 1000;
        }
        return seconds > HANDLER_TIMEOUT_MAX_S ? HANDLER_TIMEOUT_MAX_S * 1000ULL
                                               : MAX((uint64_t)(seconds * 1000.0), (uint64_t)1);
    }
    if (asked != NULL) {
        return (uint64_t)json_integer_value(asked) * 1000;
    }
    return is_handler ? HANDLER_TIMEOUT_S * 1000 : service_config(svc)->execution_timeout_ms;
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
    json_t *request = json_copy((json_t *)(uintptr_t)body); /* shares the values */

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
    char scope[STORE_ID_MAX + 16];
};

static void borrowed_release(struct borrowed *b)
{
    free(b->env);
    free(b->args);
    free(b->event);
    free(b->context);
    json_decref(b->request);
}

static int fill_ask(struct api_call *call, struct borrowed *b, struct execution_ask *ask,
                    struct err *e)
{
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
    (void)str_format(b->scope, sizeof(b->scope), "v1.execute/%s", call_text(call, "session_id"));
    ask->language = json_string_value(json_object_get(body, "language"));
    ask->env = (const char *const *)b->env;
    ask->args = b->args;
    ask->stdin_data = json_string_value(json_object_get(body, "stdin"));
    ask->stdin_len = json_string_length(json_object_get(body, "stdin"));
    ask->event = b->event;
    ask->context_json = b->context;
    ask->context = (uint32_t)json_integer_value(json_object_get(body, "context_id"));
    ask->rich = ask->kind == EXECUTE_CODE;
    ask->request = b->request;
    ask->idempotency_scope = b->scope;
    ask->idempotency_key = call_text(call, "idempotency-key");
    if (ask->idempotency_key != NULL) {
        memcpy(ask->hash, call_body_hash(call), sizeof(ask->hash));
    }
    return 0;
}

int v1_execute_start(struct api_call *call, struct v1_execution *ret)
{
    struct service *svc = call_service(call);
    AUTO(borrowed_release) struct borrowed b = {0};
    struct execution_ask ask = {0};
    struct execution *x = NULL;
    char known[STORE_ID_MAX + 1];
    bool existed = false;
    struct err e = {0};

    if (fill_ask(call, &b, &ask, &e) < 0) {
        call_reply_err(call, &e);
        return -1;
    }
    AUTO_SESSION struct session *s = session_hold(svc, call_text(call, "session_id"), &e);
    if (s != NULL && execution_start(s, &ask, &x, &existed, &e) == 0) {
        *ret = (struct v1_execution){.x = x, .record = execution_record(x)};
        return 0;
    }
    /* A repeated request is answered also when the session takes no more work. */
    if (v1_key_used(call, b.scope, known) && v1_execution_open(svc, known, ret, &e) == 0) {
        return 0;
    }
    v1_reply_err(call, &e, s == NULL ? V1_SESSION : V1_OTHER);
    return -1;
}

void api_v1_execute(struct api_call *call)
{
    AUTO_V1_EXECUTION struct v1_execution it = {0};

    if (v1_execute_start(call, &it) < 0) {
        return;
    }
    const struct store_execution *r = it.record;
    size_t place = it.x != NULL ? execution_queue_position(it.x) : 0;
    call_reply_json(call, 201,
                    json_pack("{s:s, s:s, s:s, s:o, s:o}", "execution_id", r->id, "session_id",
                              r->session_id, "status", execution_state_word(r->status),
                              "queue_position",
                              place > 0 ? json_integer((json_int_t)place) : json_null(),
                              "created_at", v1_time(r->created_ms)));
}

void api_v1_execute_sync(struct api_call *call)
{
    int64_t patience = call_int(call, "sync_timeout", 300);
    char detail[STORE_ID_MAX + 64];
    AUTO_V1_EXECUTION struct v1_execution it = {0};

    if (v1_execute_start(call, &it) < 0) {
        return;
    }
    const struct store_execution *r = it.record;
    if (it.x != NULL && execution_wait(it.x, patience * 1000) < 0) {
        (void)str_format(detail, sizeof(detail), "%s is still %s after %lld s", r->id,
                         execution_state_word(r->status), (long long)patience);
        call_reply_error(call, 408, "Sandbox.RequestTimeout", "The result did not come in time.",
                         detail, "Follow it with GET /api/v1/executions/{execution_id}/events.");
        return;
    }
    call_reply_json(call, 200, v1_execution_json(r, it.x));
}

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
    store_execution_free(it->row);
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
 * Row by row, for a page of records with all their output would be large. How many there are altogether is asked for
 * by a page behind the last one.
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
    struct store_session *session = NULL;
    int64_t total = 0;
    struct err e = {0};

    if (store_get_session(service_store(l.svc), call_text(call, "session_id"), &session, &e) < 0 ||
        list_executions(call, &l, &total, &e) < 0) {
        json_decref(l.items);
        store_session_free(session);
        v1_reply_err(call, &e, V1_SESSION);
        return;
    }
    store_session_free(session);
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
    }
    call_reply_json(call, 200, v1_execution_json(it.record, it.x));
}
