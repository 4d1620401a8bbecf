/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a session is made: what was asked for is checked, recorded, then gets its box; see service.h.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/str.h"
#include "service/impl.h"

static const char *template_of(const struct session_ask *ask)
{
    return ask->template_name != NULL ? ask->template_name : "python";
}

static const char *mode_of(const struct session_ask *ask)
{
    return ask->persistent ? "persistent" : "ephemeral";
}

/*
 * An ephemeral one that has had its execution, or has it now, is of no use to its agent any more.
 */
static bool is_spent(const struct session *s)
{
    return !s->persistent && s->record.executions > 0;
}

static struct session *find_agents(struct service *svc, const struct session_ask *ask)
{
    const char *mode = mode_of(ask);
    const char *template = template_of(ask);

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

static int check_free(struct service *svc, const char *id, struct err *e)
{
    AUTO_FREE struct store_session *row = NULL;

    if (table_session(svc, id) != NULL || store_get_session(svc->store, id, &row, e) == 0) {
        return err_set(e, ERR_EXISTS, "there is a session %s already", id);
    }
    if (e->code != ERR_NOT_FOUND) {
        return -1;
    }
    e->code = ERR_NONE;
    return 0;
}

static int check_ask(struct service *svc, const struct session_ask *ask, struct err *e)
{
    const char *template = template_of(ask);

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
    return ask->id != NULL ? check_free(svc, ask->id, e) : 0;
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
        .mode = mode_of(ask),
        .template = template_of(ask),
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
        session_await_move(s, (int64_t)(until - now));
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
