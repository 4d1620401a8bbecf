/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: made, found, held; see service.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/str.h"
#include "core/box_files.h"
#include "service/impl.h"

const struct store_session *session_record(const struct session *s)
{
    return &s->record;
}

const char *session_language(const struct session *s)
{
    /* No other interpreter can be kept. */
    return s->persistent ? "python" : live_language(s->svc->engine, s->record.template);
}

bool session_is_working(const struct session *s)
{
    return s->working > 0;
}

struct service *session_service(const struct session *s)
{
    return s->svc;
}

void session_ref(struct session *s)
{
    s->refs++;
}

/* The texts of a record, owned by the session. */
static bool copy_record(struct session *s, const struct store_session *from)
{
    s->record = *from;
    s->record.id = s->id;
    s->record.mode = text_copy(from->mode);
    s->record.template = text_copy(from->template);
    s->record.agent_id = text_copy(from->agent_id);
    s->record.dialect = text_copy(from->dialect);
    s->record.owner = text_copy(from->owner);
    s->record.min_isolation = text_copy(from->min_isolation);
    s->record.spec = text_copy(from->spec);
    s->record.end_reason = text_copy(from->end_reason);
    return s->record.mode != NULL && s->record.template != NULL && s->record.agent_id != NULL &&
           s->record.dialect != NULL && s->record.owner != NULL &&
           s->record.min_isolation != NULL && s->record.spec != NULL &&
           s->record.end_reason != NULL;
}

static void session_free(struct session *s)
{
    box_files_close(s->files);
    husk_session_close(s->box);
    free((char *)s->record.mode);
    free((char *)s->record.template);
    free((char *)s->record.agent_id);
    free((char *)s->record.dialect);
    free((char *)s->record.owner);
    free((char *)s->record.min_isolation);
    free((char *)s->record.spec);
    free((char *)s->record.end_reason);
    text_list_free(s->env);
    free(s);
}

struct session *session_new(struct service *svc, const struct store_session *record)
{
    struct session *s = calloc(1, sizeof(*s));

    if (s == NULL) {
        return NULL;
    }
    s->svc = svc;
    s->refs = 1;
    (void)str_copy(s->id, sizeof(s->id), record->id);
    s->persistent = str_eq(record->mode, "persistent");
    s->born_ms = s->active_ms = clock_ms();
    if (!copy_record(s, record)) {
        session_free(s);
        return NULL;
    }
    return s;
}

void session_release(struct session *s)
{
    if (s != NULL && --s->refs == 0) {
        session_free(s);
    }
}

void session_touch(struct session *s)
{
    s->active_ms = clock_ms();
    s->record.active_ms = clock_wall_ms();
    s->record.expires_ms = s->record.active_ms + (int64_t)s->timeout_ms;
}

static void describe_end(const struct store_session *r, struct err *e)
{
    err_set(e, ERR_CONFLICT, "session %s is %s%s%s", r->id, session_state_word(r->status),
            r->end_reason[0] != '\0' ? ": " : "", r->end_reason);
}

/* It may be gone after that: look again. */
static void await_move(struct session *s, int64_t timeout_ms)
{
    session_ref(s);
    (void)fiber_queue_wait(&s->moved, timeout_ms);
    session_release(s);
}

struct session *session_find(struct service *svc, const char *id)
{
    struct session *s;

    while ((s = table_session(svc, id)) != NULL && !s->recorded) {
        await_move(s, -1); /* what is refused must not have been used */
    }
    return s;
}

struct session *session_hold(struct service *svc, const char *id, struct err *e)
{
    struct store_session *row = NULL;
    struct session *s;

    s = session_find(svc, id);
    if (s != NULL && !s->ending) {
        session_ref(s);
        return s;
    }
    if (store_get_session(svc->store, id, &row, e) == 0) {
        describe_end(s != NULL ? &s->record : row, e);
    } else if (e->code == ERR_NOT_FOUND) {
        err_set(e, ERR_NOT_FOUND, "there is no session %s", id);
    }
    free(row);
    return NULL;
}

int session_move(struct session *s, int state, const char *reason, struct err *e)
{
    struct store_batch *b = store_batch_new(s->svc->store);
    struct store_session next = s->record;
    int from = s->record.status;

    next.status = state;
    next.epoch = s->svc->figures.epoch;
    /* Told at once: whoever records work meanwhile writes it as well. */
    next.updated_ms = s->record.updated_ms = clock_wall_ms();
    if (session_state_is_final(state)) {
        next.ended_ms = next.updated_ms;
    }
    char *why = text_copy(reason);
    if (why == NULL || b == NULL) {
        free(why);
        store_batch_free(b);
        return err_sys(e, ENOMEM, "record of session %s", s->id);
    }
    next.end_reason = why;
    store_move_session(b, from, &next);
    s->moving = true;
    int r = service_commit(s->svc, b, NULL, e);
    s->moving = false;
    fiber_queue_wake_all(&s->moved);
    if (r < 0) {
        free(why);
        return -1;
    }
    /* Only what was moved: there may have been work meanwhile. */
    free((char *)s->record.end_reason);
    s->record.end_reason = why;
    s->record.status = next.status;
    s->record.epoch = next.epoch;
    s->record.ended_ms = next.ended_ms;
    return 0;
}

/* ---- making one ---- */

/*
 * An ephemeral one that has had its execution, or has it now, is of no use to its agent any more.
 */
static bool is_spent(const struct session *s)
{
    return !s->persistent && s->record.executions > 0;
}

static struct session *find_agents(struct service *svc, const struct session_ask *ask)
{
    const char *mode = ask->persistent ? "persistent" : "ephemeral";
    const char *template = ask->template_name != NULL ? ask->template_name : "python";

    if (ask->agent_id == NULL || ask->agent_id[0] == '\0') {
        return NULL;
    }
    for (struct session *s = svc->sessions; s != NULL; s = session_next(s)) {
        if (!s->ending && !is_spent(s) && str_eq(s->record.agent_id, ask->agent_id) &&
            str_eq(s->record.mode, mode) && str_eq(s->record.template, template)) {
            return s;
        }
    }
    return NULL;
}

static int check_ask(struct service *svc, const struct session_ask *ask, struct err *e)
{
    const char *template = ask->template_name != NULL ? ask->template_name : "python";
    struct store_session *row = NULL;
    struct session *s = NULL;

    bool is_se = str_eq(ask->dialect, "workspace_se"); /* has a limit of its own */
    if (!is_se && ask->timeout_ms > svc->config->max_session_timeout_ms) {
        return err_set(e, ERR_INVALID, "timeout must be at most %llu s on this server",
                       (unsigned long long)svc->config->max_session_timeout_ms / 1000);
    }
    if (table_sessions(svc) >= svc->config->max_sessions) {
        return err_set(e, ERR_LIMIT, "there are %zu sessions, the most that this server takes",
                       table_sessions(svc));
    }
    if (ask->isolation == HUSK_ISOLATION_FULL &&
        native_facts(svc->engine->native)->isolation != LAUNCHER_FULL) {
        return err_set(e, ERR_ISOLATION, "this server cannot enforce full isolation: %s",
                       native_facts(svc->engine->native)->missing);
    }
    struct live_template *live = live_get(svc->engine, template, true, e);
    if (live == NULL) {
        return -1;
    }
    if (ask->persistent && live->def.info.language != HUSK_PYTHON) {
        return err_set(e, ERR_INVALID,
                       "template %s has no interpreter that can be kept: use mode ephemeral",
                       template);
    }
    /*
     * Now, also for a box that is made later: an execution that can never start would spend the
     * session.
     */
    struct husk_limits asked = service_limits(svc, template, &ask->limits);
    struct limits limits;
    if (engine_limits(&asked, &live->def.info.limits, &limits, e) < 0) {
        return -1;
    }
    if (ask->id == NULL) {
        return 0;
    }
    s = table_session(svc, ask->id);
    if (s != NULL || store_get_session(svc->store, ask->id, &row, e) == 0) {
        free(row);
        return err_set(e, ERR_EXISTS, "there is a session %s already", ask->id);
    }
    if (e->code != ERR_NOT_FOUND) {
        return -1;
    }
    e->code = ERR_NONE;
    return 0;
}

static struct session *build(struct service *svc, const struct session_ask *ask, struct err *e)
{
    char id[ID_SIZE];
    int64_t now = clock_wall_ms();
    uint64_t timeout_ms = ask->timeout_ms != 0 ? ask->timeout_ms : svc->config->session_timeout_ms;
    char *spec = session_spec_text(ask);

    if (ask->id != NULL) {
        (void)str_copy(id, sizeof(id), ask->id);
    } else {
        id_make(id, sizeof(id), "sess_");
    }
    struct store_session record = {
        .id = id,
        .mode = ask->persistent ? "persistent" : "ephemeral",
        .template = ask->template_name != NULL ? ask->template_name : "python",
        .agent_id = ask->agent_id,
        .dialect = ask->dialect,
        .min_isolation = ask->isolation == HUSK_ISOLATION_FULL ? "full" : "userns",
        .spec = spec,
        .created_ms = now,
        .updated_ms = now,
        .active_ms = now,
        .epoch = svc->figures.epoch,
        .status = SESSION_CREATING,
    };
    struct session *s = spec != NULL ? session_new(svc, &record) : NULL;
    free(spec);
    if (s == NULL || (ask->env != NULL && (s->env = text_list_copy(ask->env)) == NULL)) {
        session_release(s);
        err_sys(e, ENOMEM, "session");
        return NULL;
    }
    s->limits = service_limits(svc, ask->template_name, &ask->limits);
    s->timeout_ms = timeout_ms;
    session_touch(s);
    return s;
}

/* 0: it is ours; 1: somebody had the key, *ret is that session; -1. */
static int record_new(struct session *s, const struct session_ask *ask, struct session **ret,
                      struct err *e)
{
    struct store_batch *b = keyed_batch(s->svc, &ask->idempotency, s->id, s->record.created_ms);
    char known[ID_SIZE];

    if (b == NULL) {
        return err_sys(e, ENOMEM, "session");
    }
    store_put_session(b, &s->record);
    int r = keyed_commit(s->svc, b, &ask->idempotency, known, e);
    if (r == 1) {
        *ret = session_hold(s->svc, known, e);
    }
    return r == 1 && *ret == NULL ? -1 : r;
}

/*
 * As record_new(). In the table before anything waits: nobody else can take the id or the agent
 * meanwhile.
 */
static int enlist(struct session *s, const struct session_ask *ask, struct session **ret,
                  struct err *e)
{
    session_ref(s); /* the table's */
    table_add_session(s->svc, s);
    int r = record_new(s, ask, ret, e);
    s->recorded = r == 0;
    if (r != 0) {
        table_remove_session(s->svc, s);
        session_release(s);
    }
    fiber_queue_wake_all(&s->moved);
    return r;
}

/*
 * Whoever makes it may fail, and nobody finishes it should we die: until it is there it is
 * promised to nobody else. *ret is NULL if the agent has none.
 */
static int find_made(struct service *svc, const struct session_ask *ask, struct session **ret,
                     struct err *e)
{
    uint64_t until = clock_ms() + svc->config->queue_timeout_ms;
    struct session *s;

    while ((s = find_agents(svc, ask)) != NULL && s->record.status == SESSION_CREATING) {
        uint64_t now = clock_ms();
        if (now >= until) {
            return err_set(e, ERR_LIMIT,
                           "session %s of the agent is still being made: try again later", s->id);
        }
        await_move(s, (int64_t)(until - now));
    }
    *ret = s;
    return 0;
}

int session_create(struct service *svc, const struct session_ask *ask, struct session **ret,
                   bool *ret_existed, struct err *e)
{
    *ret_existed = false;
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
        *ret_existed = true;
        session_ref(s);
        *ret = s;
        return 0;
    }
    if (check_ask(svc, ask, e) < 0 || (s = build(svc, ask, e)) == NULL) {
        return -1;
    }
    int r = enlist(s, ask, ret, e);
    if (r != 0) {
        session_release(s);
        *ret_existed = r == 1;
        return r == 1 ? 0 : -1;
    }
    FAULT_POINT("session.recorded");
    svc->figures.sessions_created++;
    if ((s->persistent && session_box(s, e) < 0) || session_move(s, SESSION_RUNNING, "", e) < 0) {
        struct err why = *e;
        (void)session_end(svc, s->id, SESSION_FAILED, why.msg, e);
        *e = why;
        session_release(s);
        return -1;
    }
    FAULT_POINT("session.created");
    *ret = s;
    return 0;
}
