/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: found, held, moved from state to state; how one is made is in session_create.c. */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/str.h"
#include "core/box_files.h"
#include "service/service_impl.h"

const char *session_id(const struct session *s)
{
    return s->id;
}

const char *session_language(const struct session *s)
{
    if (s->language[0] != '\0') {
        return s->language;
    }
    if (s->box != NULL && notebook_has_context(s->box, 0)) {
        return template_language_name(notebook_language(s->box, 0));
    }
    return engine_language(s->svc->engine, s->record.template);
}

bool session_is_working(const struct session *s)
{
    return s->working > 0;
}

bool session_is_ending(const struct session *s)
{
    return s->phase >= PHASE_ENDING;
}

void session_ref(struct session *s)
{
    s->refs++;
}

static void session_free(struct session *s)
{
    box_files_close(s->files);
    notebook_close(s->box);
    free(s->texts);
    free(s->end_reason);
    text_list_free(s->env);
    free(s);
}

struct session *session_new(struct service *svc, const struct store_session *record)
{
    struct session *s = calloc(1, sizeof(*s));

    if (s == NULL || (s->texts = store_copy_session(record)) == NULL) {
        free(s);
        return NULL;
    }
    s->svc = svc;
    s->refs = 1;
    s->record = *s->texts;
    (void)str_copy(s->id, sizeof(s->id), record->id);
    s->persistent = str_eq(record->mode, "persistent");
    s->born_ms = s->active_ms = clock_ms();
    return s;
}

void session_release(struct session *s)
{
    if (s != NULL && --s->refs == 0) {
        session_free(s);
    }
}

void session_work_begins(struct session *s)
{
    s->working++;
}

void session_work_ends(struct session *s)
{
    s->working--;
    fiber_queue_wake_all(&s->idle);
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

void session_await_move(struct session *s, int64_t timeout_ms)
{
    session_ref(s);
    (void)fiber_queue_wait(&s->moved, timeout_ms);
    session_release(s);
}

struct session *session_find(struct service *svc, const char *id)
{
    struct session *s;

    while ((s = table_session(svc, id)) != NULL && s->phase == PHASE_RECORDING) {
        session_await_move(s, -1); /* what is refused must not have been used */
    }
    return s;
}

struct session *session_hold(struct service *svc, const char *id, struct err *e)
{
    struct store_session *row = NULL;
    struct session *s;

    s = session_find(svc, id);
    if (s != NULL && !session_is_ending(s)) {
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
    /* At once: a fiber that records work meanwhile writes it as well. */
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
    free(s->end_reason);
    s->record.end_reason = s->end_reason = why;
    s->record.status = next.status;
    s->record.epoch = next.epoch;
    s->record.ended_ms = next.ended_ms;
    return 0;
}

/* Its box must be one that can be frozen; a new one will be. */
static int check_extension(struct session *s, uint64_t timeout_ms, enum session_on_idle on_idle,
                           struct err *e)
{
    if (timeout_ms > s->svc->config->max_session_timeout_ms) {
        return err_set(e, ERR_INVALID, "timeout must be at most %llu s on this server",
                       (unsigned long long)s->svc->config->max_session_timeout_ms / 1000);
    }
    if (session_check_on_idle(s->svc, s->persistent, (int)on_idle, e) < 0) {
        return -1;
    }
    if (on_idle != ON_IDLE_FREEZE || s->box == NULL || notebook_is_freezable(s->box)) {
        return 0;
    }
    (void)session_box_hold(s);
    int r = notebook_make_freezable(s->box, e);
    session_box_give(s);
    return r < 0 ? err_set(e, ERR_CONFLICT,
                           "the box of session %s cannot be frozen, since it was made without "
                           "on_idle freeze: create the session with it, or use park",
                           s->id)
                 : 0;
}

int session_extend(struct session *s, uint64_t timeout_ms, enum session_on_idle on_idle,
                   struct err *e)
{
    if (check_extension(s, timeout_ms, on_idle, e) < 0) {
        return -1;
    }
    struct store_batch *b = store_batch_new(s->svc->store);
    uint64_t before = s->timeout_ms;
    int on_idle_before = s->record.on_idle;

    if (b == NULL) {
        return err_sys(e, ENOMEM, "session");
    }
    /*
     * Before it is durable: a fiber that records the session meanwhile would write the old time
     * behind it.
     */
    s->timeout_ms = timeout_ms;
    s->record.on_idle = on_idle != ON_IDLE_UNSET ? (int)on_idle : on_idle_before;
    session_touch(s);
    s->record.updated_ms = s->record.active_ms;
    store_put_session(b, &s->record);
    int r = service_commit(s->svc, b, NULL, e);
    FAULT_POINT("session.extended");
    if (r < 0 && s->timeout_ms == timeout_ms) { /* what is refused does not hold */
        s->timeout_ms = before;
        s->record.on_idle = on_idle_before;
        session_touch(s);
    }
    return r;
}

static int note_unbegun(void *user, const struct store_execution *row, struct err *e)
{
    (void)e;
    *(bool *)user = execution_never_began(row);
    return 0;
}

/* Its latest execution, live or recorded. */
static bool latest_never_began(struct session *s)
{
    const struct store_filter latest = {.session_id = s->id, .limit = 1};
    bool is_unbegun = false;
    struct err ignored;

    for (const struct execution *x = s->svc->executions; x != NULL; x = execution_next(x)) {
        if (x->session == s && x->record.number == s->record.executions) {
            return execution_never_began(&x->record);
        }
    }
    (void)store_each_execution(s->svc->store, &latest, note_unbegun, &is_unbegun, &ignored);
    return is_unbegun;
}

bool session_is_spent(struct session *s)
{
    return !s->persistent && s->record.executions > 0 && !latest_never_began(s);
}
