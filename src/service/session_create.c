/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a session is made; see service.h.
 *
 * The request is checked and recorded; then the session gets its box, then the record that it
 * runs. A failure on the way is reported, so the client asks again, by the same key or for the same
 * id: a session that never ran must not be in the way.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"
#include "service/service_impl.h"

/* It could not be made, and nothing was ever done in it. */
static bool never_was(const struct store_session *row)
{
    return row->status == SESSION_FAILED && row->executions == 0;
}

static int check_id(struct service *svc, const char *id, struct err *e)
{
    AUTO_FREE struct store_session *row = NULL;
    struct err why = {0};

    const struct session *s = table_session(svc, id);
    if (s == NULL && store_get_session(svc->store, id, &row, &why) < 0) {
        if (why.code != ERR_NOT_FOUND) {
            *e = why;
            return -1;
        }
        return 0;
    }
    if (s != NULL || !never_was(row)) {
        return err_set(e, ERR_EXISTS, "there is a session %s already", id);
    }
    workspace_remove(svc, id);
    return 0; /* its record makes room for the new one */
}

/* What a client asks for by a number is refused; defaults are lowered (service_limits()). */
static int check_machine(const struct session_ask *ask, const struct template_def *def,
                         struct err *e)
{
    uint64_t most = limits_machine_memory();

    if (def->most.memory_bytes != 0 || ask->limits.memory_bytes <= most) {
        return 0;
    }
    return err_set(e, ERR_INVALID,
                   "memory is %" PRIu64 ", a box can have at most %" PRIu64
                   " on this machine (more only by max_memory of an operator's template)",
                   ask->limits.memory_bytes, most);
}

static uint64_t timeout_of(const struct service *svc, const struct session_ask *ask)
{
    uint64_t fallback = ask->default_timeout_ms;

    fallback = fallback != 0 ? fallback : svc->config->session_timeout_ms;
    return ask->timeout_ms != 0 ? ask->timeout_ms : fallback;
}

static enum session_on_idle on_idle_of(const struct service *svc, const struct session_ask *ask)
{
    static const enum session_on_idle settings[] = {ON_IDLE_END, ON_IDLE_PARK, ON_IDLE_FREEZE};

    if (ask->on_idle != ON_IDLE_UNSET) {
        return ask->on_idle;
    }
    return ask->persistent ? settings[svc->config->session_on_idle] : ON_IDLE_END;
}

/* Every template has a shell, and every persistent session may have JavaScript beside it. */
static int check_language(const struct session_ask *ask, const struct template_def *def,
                          struct err *e)
{
    enum husk_language asked;

    if (ask->language == NULL || !template_language_find(ask->language, &asked) ||
        asked == def->info.language || asked == HUSK_SHELL ||
        (ask->persistent && asked != HUSK_PYTHON)) {
        return 0;
    }
    return err_set(e, ERR_INVALID, "template %s has no %s: use one of that language",
                   session_template_of(ask), ask->language);
}

static int check_ask(struct service *svc, const struct session_ask *ask, struct err *e)
{
    const char *template = session_template_of(ask);

    if (!ask->has_own_bounds && timeout_of(svc, ask) > svc->config->max_session_timeout_ms) {
        return err_set(e, ERR_INVALID, "timeout must be at most %llu s on this server",
                       (unsigned long long)svc->config->max_session_timeout_ms / 1000);
    }
    if (session_check_on_idle(svc, ask->persistent, (int)on_idle_of(svc, ask), e) < 0) {
        return -1;
    }
    if (table_sessions(svc) >= svc->config->max_sessions) {
        return err_set(e, ERR_LIMIT,
                       "there are %zu sessions, the most that this server takes (max_sessions): "
                       "end one, or try "
                       "again later",
                       table_sessions(svc));
    }
    if (fd_is_scarce()) { /* the rest is for one-shot runs, clients and operators */
        return err_set(e, ERR_LIMIT,
                       "%zu sessions use nearly all files that the server may open: end one, or "
                       "raise its limit of open files (LimitNOFILE, ulimit -Hn)",
                       table_sessions(svc));
    }
    const char *missing = engine_missing(svc->engine);
    if (ask->isolation == HUSK_ISOLATION_FULL && missing != NULL) {
        return err_set(e, ERR_ISOLATION, "this server cannot enforce full isolation: %s", missing);
    }
    const struct template_def *def = engine_template(svc->engine, template, e);
    if (def == NULL) {
        return -1;
    }
    if (check_language(ask, def, e) < 0) {
        return -1;
    }
    /*
     * Now, also for a box that is made later: an execution that can never start would spend the
     * session.
     */
    if (!ask->has_own_bounds && check_machine(ask, def, e) < 0) {
        return -1;
    }
    struct husk_limits asked = service_limits(svc, template, &ask->limits);
    if (engine_check_limits(svc->engine, template, &asked, e) < 0) {
        return -1;
    }
    return ask->id != NULL ? check_id(svc, ask->id, e) : 0;
}

static struct session *build_with(struct service *svc, const struct session_ask *ask, struct err *e)
{
    char id[ID_SIZE];
    int64_t now = clock_wall_ms();
    char *spec = session_spec_text(ask);

    if (ask->id != NULL) {
        (void)str_copy(id, sizeof(id), ask->id);
    } else {
        id_make(id, sizeof(id), "sess_");
    }
    struct store_session record = {
        .id = id,
        .mode = session_mode_of(ask),
        .template = session_template_of(ask),
        .agent_id = ask->agent_id,
        .dialect = ask->dialect,
        .min_isolation = ask->isolation == HUSK_ISOLATION_FULL ? "full" : "userns",
        .spec = spec,
        .created_ms = now,
        .updated_ms = now,
        .active_ms = now,
        .epoch = svc->figures.epoch,
        .status = SESSION_CREATING,
        .on_idle = (int)on_idle_of(svc, ask),
    };
    struct session *s = spec != NULL ? session_new(svc, &record) : NULL;
    free(spec);
    if (s == NULL || (ask->env != NULL && (s->env = text_list_copy(ask->env)) == NULL)) {
        session_release(s);
        err_sys(e, ENOMEM, "session");
        return NULL;
    }
    if (ask->language != NULL) {
        (void)str_copy(s->language, sizeof(s->language), ask->language);
    }
    s->limits = service_limits(svc, session_template_of(ask), &ask->limits);
    s->timeout_ms = timeout_of(svc, ask);
    s->lifetime_ms = ask->lifetime_ms;
    session_touch(s);
    return s;
}

static struct session *build(struct service *svc, const struct session_ask *ask, struct err *e)
{
    struct session_ask full = *ask;
    AUTO_FREE const char **env = session_join_env(svc, ask);

    if (env == NULL) {
        err_sys(e, ENOMEM, "session");
        return NULL;
    }
    full.env = env[0] != NULL ? env : NULL;
    return build_with(svc, &full, e);
}

/* As keyed_commit(). `failed`: the holder of the key, which could not be made; or NULL. */
static int commit_new(struct session *s, const struct session_ask *ask, const char *failed,
                      char ret_known[ID_SIZE], struct err *e)
{
    struct store_batch *b =
        keyed_batch(s->svc, &ask->idempotency, failed, s->id, s->record.created_ms);

    if (b == NULL) {
        return err_sys(e, ENOMEM, "session");
    }
    if (ask->id != NULL) {
        store_delete_session(b, s->id); /* one that could not be made; see check_id() */
    }
    store_put_session(b, &s->record);
    return keyed_commit(s->svc, b, &ask->idempotency, ret_known, e);
}

static bool could_not_be_made(struct service *svc, const char *id)
{
    AUTO_FREE struct store_session *row = NULL;
    struct err ignored;

    return store_get_session(svc->store, id, &row, &ignored) == 0 && never_was(row);
}

/* 0: it is ours; 1: the key was taken, *ret is its session; -1. */
static int record_new(struct session *s, const struct session_ask *ask, struct session **ret,
                      struct err *e)
{
    char known[ID_SIZE];

    int r = commit_new(s, ask, NULL, known, e);
    if (r == 1 && could_not_be_made(s->svc, known)) {
        r = commit_new(s, ask, known, known, e);
    }
    if (r == 1) {
        *ret = session_hold(s->svc, known, e);
    }
    return r == 1 && *ret == NULL ? -1 : r;
}

/*
 * As record_new(). In the table before anything waits: no other fiber can take the id or the
 * agent meanwhile.
 */
static int enlist(struct session *s, const struct session_ask *ask, struct session **ret,
                  struct err *e)
{
    session_ref(s); /* the table's */
    table_add_session(s->svc, s);
    int r = record_new(s, ask, ret, e);
    if (r == 0) {
        session_phase_step(&s->phase, PHASE_MAKING);
    } else {
        table_remove_session(s->svc, s);
        session_release(s);
    }
    fiber_queue_wake_all(&s->moved);
    return r;
}

/* Its box, and the record that it runs. */
static int make(struct session *s, struct err *e)
{
    if (s->phase == PHASE_STALLED) {
        session_phase_step(&s->phase, PHASE_MAKING);
    }
    int r = s->persistent ? session_box(s, e) : 0;
    r = r < 0 ? r : session_move(s, SESSION_RUNNING, "", e);
    if (s->phase == PHASE_MAKING) { /* else another fiber ends it */
        session_phase_step(&s->phase, r == 0 ? PHASE_LIVE : PHASE_STALLED);
    }
    fiber_queue_wake_all(&s->moved);
    return r;
}

static bool is_under_way(const struct session *s)
{
    return s->phase == PHASE_RECORDING || s->phase == PHASE_MAKING || s->phase == PHASE_ENDING;
}

/* Its maker may fail, and a full disk may not take even that: then it is made now. */
static int await_made(struct session *s, struct err *e)
{
    while (is_under_way(s)) {
        session_await_move(s, -1);
    }
    if (s->record.status == SESSION_FAILED) {
        return err_set(e, ERR_TIMEOUT, "session %s could not be made: %s", s->id,
                       s->record.end_reason);
    }
    return s->record.status == SESSION_CREATING ? make(s, e) : 0;
}

/*
 * Its maker may fail, and nothing finishes it if this process dies: until it is made no other
 * client gets it. *ret is NULL if the agent has none.
 */
static int find_made(struct service *svc, const struct session_ask *ask, struct session **ret,
                     struct err *e)
{
    uint64_t until = clock_ms() + svc->config->queue_timeout_ms;
    struct session *s;

    while ((s = agent_find_session(svc, ask)) != NULL && s->record.status == SESSION_CREATING) {
        uint64_t now = clock_ms();
        if (!is_under_way(s)) { /* its maker failed, and a full disk did not take even that */
            session_ref(s);
            int r = make(s, e);
            session_release(s);
            if (r < 0) {
                return -1;
            }
            continue;
        }
        if (now >= until) {
            return err_set(e, ERR_LIMIT,
                           "session %s of the agent is still being made: try again later", s->id);
        }
        session_await_move(s, (int64_t)(until - now));
    }
    *ret = s;
    return 0;
}

/* The same request may have made it: then it is no other client's. */
static enum session_origin origin_of(const struct session *s, const struct session_ask *ask)
{
    char known[SERVICE_ID_SIZE];

    return service_key_used(s->svc, &ask->idempotency, known) && str_eq(known, s->id)
               ? SESSION_REPEATED
               : SESSION_REUSED;
}

/* What a repeated request gets. The session is taken. */
static int give_known(struct session *s, struct session **ret, enum session_origin *ret_origin,
                      struct err *e)
{
    if (await_made(s, e) < 0) {
        session_release(s);
        return -1;
    }
    *ret = s;
    *ret_origin = SESSION_REPEATED;
    return 0;
}

int session_await(struct service *svc, const char *id, struct err *e)
{
    struct session *s = session_find(svc, id);

    if (s == NULL) {
        AUTO_FREE struct store_session *row = NULL;
        struct err ignored;
        bool is_there = store_get_session(svc->store, id, &row, &ignored) == 0;
        return is_there && row->status == SESSION_FAILED ? -1 : 0;
    }
    session_ref(s);
    int r = await_made(s, e);
    session_release(s);
    return r;
}

/* There was no room for it: a server that refuses a thousand requests keeps no record of each. */
static void forget_refused(struct session *s, const struct request_key *asked)
{
    struct service *svc = s->svc;
    struct store_batch *b = store_batch_new(svc->store);
    struct err e = {0};

    if (b == NULL) {
        return; /* its record stays, as failed */
    }
    if (asked->key != NULL) {
        struct store_key key = {.scope = asked->scope, .key = asked->key, .id = s->id};
        memcpy(key.hash, asked->hash, sizeof(key.hash));
        store_free_key(b, &key);
    }
    store_delete_session(b, s->id);
    if (service_commit(svc, b, NULL, &e) < 0) {
        log_warn("record_not_removed", "session=%s: %s", s->id, e.msg);
        return;
    }
    quota_forget(svc, (uint64_t)s->record.kept_bytes);
    workspace_remove(svc, s->id);
}

int session_create(struct service *svc, const struct session_ask *ask, struct session **ret,
                   enum session_origin *ret_origin, struct err *e)
{
    *ret_origin = SESSION_NEW;
    struct session *s = NULL;
    if (find_made(svc, ask, &s, e) < 0) {
        return -1;
    }
    if (s != NULL && ask->id != NULL && !str_eq(ask->id, s->id)) {
        return err_set(e, ERR_CONFLICT,
                       "the agent has session %s already: use that one, or end it before you "
                       "create %s",
                       s->id, ask->id);
    }
    if (s != NULL) {
        *ret_origin = origin_of(s, ask);
        session_ref(s);
        *ret = s;
        return 0;
    }
    if (check_ask(svc, ask, e) < 0 || (s = build(svc, ask, e)) == NULL) {
        return -1;
    }
    struct session *known = NULL;
    int r = quota_begin_session(s, e) < 0 ? -1 : enlist(s, ask, &known, e);
    if (r != 0) {
        quota_give(s, s->kept_bytes);
        session_release(s);
        return r == 1 ? give_known(known, ret, ret_origin, e) : -1;
    }
    FAULT_POINT("session.recorded");
    svc->figures.sessions_created++;
    if (make(s, e) < 0) {
        struct err why = *e;
        bool has_ended = session_end(svc, s->id, SESSION_FAILED, why.msg, e) == 0;
        if (has_ended && why.code == ERR_LIMIT && table_session(svc, s->id) == NULL) {
            forget_refused(s, &ask->idempotency);
        }
        *e = why;
        session_release(s);
        return -1;
    }
    FAULT_POINT("session.created");
    *ret = s;
    return 0;
}
