/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handlers of /api/v1 for executions that exist: look up, list, cancel, withdraw. Starting one is
 * execute.c, following one live events.c.
 */
#include <errno.h>

#include "api/v1/execute.h"
#include "api/v1/shape.h"
#include "base/str.h"

#define CANCEL_PATIENCE_MS 30000

/* ---- look up ---- */

static void reply_execution(struct api_call *call, const char *id, bool with_output)
{
    AUTO_EXECUTION struct execution_entry it = {0};
    struct err e = {0};

    if (execution_open(call_service(call), id, &it, &e) < 0) {
        v1_reply_err(call, &e, V1_EXECUTION);
        return;
    }
    call_reply_json(call, 200, with_output ? v1_execution_json(&it) : v1_execution_state_json(&it));
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

/* The latest execution of the session, or the named one if it is of this session. */
static int session_execution(struct api_call *call, char ret[static SERVICE_ID_SIZE], struct err *e)
{
    struct service *svc = call_service(call);
    const char *session_id = call_text(call, "session_id");
    const char *id = call_text(call, "execution_id");
    AUTO_EXECUTION struct execution_entry it = {0};

    if (id == NULL) {
        return execution_latest(svc, session_id, ret, e);
    }
    if (execution_open(svc, id, &it, e) < 0) {
        return -1;
    }
    if (!str_eq(execution_view(&it).session_id, session_id)) {
        return err_set(e, ERR_NOT_FOUND, "no execution \"%s\" in session \"%s\"", id, session_id);
    }
    return str_copy(ret, SERVICE_ID_SIZE, id);
}

static void reply_of_session(struct api_call *call, bool with_output)
{
    char id[SERVICE_ID_SIZE];
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

static int list_one(void *user, const struct execution_entry *x, struct err *e)
{
    return json_array_append_new(user, v1_execution_state_json(x)) < 0
               ? err_sys(e, ENOMEM, "list executions")
               : 0;
}

void api_v1_execution_list(struct api_call *call)
{
    struct service *svc = call_service(call);
    struct execution_filter filter = {
        .session_id = call_text(call, "session_id"),
        .state = call_text(call, "status"),
    };
    struct list_seen seen;
    struct err e = {0};

    if (v1_list_part(call, &filter.part) < 0) {
        return;
    }
    json_t *items = json_array();
    if (execution_list(svc, &filter, list_one, items, &seen, &e) < 0) {
        json_decref(items);
        v1_reply_err(call, &e, V1_SESSION);
        return;
    }
    call_reply_json(call, 200, v1_list_page(call, items, &seen));
}

/* ---- cancel ---- */

void api_v1_execution_cancel(struct api_call *call)
{
    AUTO_EXECUTION struct execution_entry it = {0};
    struct err e = {0};

    if (execution_open(call_service(call), call_text(call, "execution_id"), &it, &e) < 0) {
        v1_reply_err(call, &e, V1_EXECUTION);
        return;
    }
    if (it.live != NULL) {
        execution_cancel(it.live);
        if (execution_wait(it.live, CANCEL_PATIENCE_MS) < 0) {
            (void)err_set(&e, ERR_TIMEOUT, "execution \"%s\" has not ended yet",
                          execution_view(&it).id);
            call_reply_err(call, &e);
            return;
        }
        if (!execution_is_durable(it.live)) {
            (void)err_set(&e, ERR_STORAGE, "the result could not be written");
            v1_reply_err(call, &e, V1_OTHER);
            return;
        }
    }
    call_reply_json(call, 200, v1_execution_json(&it));
}

/* ---- withdraw ---- */

void api_v1_execution_withdraw(struct api_call *call)
{
    struct service *svc = call_service(call);
    const char *session_id = call_text(call, "session_id");
    AUTO_EXECUTION struct execution_entry it = {0};
    char scope[V1_KEY_SCOPE_MAX];
    struct err e = {0};

    v1_key_scope(call, scope);
    const struct request_key key = v1_key(call, scope);
    AUTO_SESSION struct session *s = session_hold(svc, session_id, &e);
    if (s == NULL || execution_withdraw(svc, &key, CANCEL_PATIENCE_MS, &it, &e) < 0) {
        v1_reply_err(call, &e, s == NULL ? V1_SESSION : V1_OTHER);
        return;
    }
    bool had_begun = it.live != NULL || it.row != NULL;
    const char *id = had_begun ? execution_view(&it).id : NULL;
    const char *status = had_begun ? execution_state_word((int)execution_view(&it).state) : NULL;
    call_reply_json(call, 200,
                    json_pack("{s:s, s:s?, s:s?}", "session_id", session_id, "execution_id", id,
                              "status", status));
}
