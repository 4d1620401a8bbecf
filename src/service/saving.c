/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which files of sessions are safe: what records say about that, and the last chance before the
 * server ends. How a workspace is copied is in workspace.c.
 */
#include "base/clock.h"
#include "service/service_impl.h"

#define SAVE_PATIENCE_MS 20000 /* at the end, from one copy that succeeds to the next */
#define RETRY_MS 400           /* a disk that is full then may have room in a moment */

/* In the store's own time. A full disk does not take it: then the next record says it. */
static void put_record(struct session *s)
{
    struct store_batch *b = store_batch_new(s->svc->store);
    struct err ignored;

    if (b != NULL) {
        store_put_session(b, &s->record);
        (void)store_commit(b, NULL, NULL, &ignored);
    }
}

void workspace_changed(struct session *s)
{
    int was = s->record.workspace;

    s->dirty = true;
    if (!s->persistent || (was != WORKSPACE_SAVED && was != WORKSPACE_LOST)) {
        return;
    }
    s->record.workspace = WORKSPACE_CHANGED;
    if (s->working == 0) { /* else it is recorded with the end of the execution */
        put_record(s);
    }
}

static enum workspace_state why(const struct err *e)
{
    switch (e->code) {
    case ERR_STORAGE:
        return WORKSPACE_NO_DISK;
    case ERR_QUOTA:
        return WORKSPACE_NO_QUOTA;
    default:
        return WORKSPACE_NO_ANSWER;
    }
}

void workspace_tried(struct session *s, int64_t began_ms, const struct err *e)
{
    if (e != NULL) {
        s->record.workspace = (int)why(e);
    } else {
        s->record.workspace = s->dirty ? WORKSPACE_CHANGED : WORKSPACE_SAVED;
        s->record.saved_ms = began_ms;
    }
    if (!session_is_ending(s)) { /* else its end is recorded next */
        put_record(s);
    }
}

void workspace_box_gone(struct session *s)
{
    if (s->record.workspace != WORKSPACE_SAVED) {
        s->record.workspace = WORKSPACE_LOST;
    }
}

/* ---- at the end of the server ---- */

/* True: there is one that a later try may save. Its next try is due now. */
static bool renew_tries(struct service *svc)
{
    bool any = false;

    for (struct session *s = svc->sessions; s != NULL; s = session_next(s)) {
        bool may_do = s->dirty && s->persistent && s->box != NULL && !session_is_ending(s) &&
                      !notebook_has_ended(s->box) && s->record.workspace != WORKSPACE_NO_QUOTA;
        s->save_at = may_do ? 0 : s->save_at;
        any = any || may_do;
    }
    return any;
}

struct saving {
    struct service *svc;
    uint64_t patience_ms; /* without progress */
    uint64_t until;
    void (*on_progress)(void *user);
    void *user;
};

static bool goes_on(const struct saving *a)
{
    return !engine_is_lost(a->svc->engine) && clock_ms() < a->until;
}

static void save_all(struct saving *a)
{
    enum save_outcome outcome;

    while (goes_on(a) && (outcome = workspace_save_next(a->svc, true)) != SAVE_NONE) {
        if (outcome == SAVE_DONE) {
            a->until = clock_ms() + a->patience_ms;
            a->on_progress(a->user);
        }
    }
}

/*
 * What still runs in a box changes files without a word: a cell, or a process that an earlier one
 * left. Only a session that never ran anything is known to be as it was saved.
 */
static void doubt_all(struct service *svc, uint64_t began)
{
    for (struct session *s = svc->sessions; s != NULL; s = session_next(s)) {
        s->dirty = s->dirty || (s->record.executions > 0 && s->saved_ms < began);
    }
}

void workspaces_save(struct service *svc, void (*on_progress)(void *user), void *user)
{
    uint64_t began = clock_ms();
    struct saving a = {.svc = svc,
                       .patience_ms = SAVE_PATIENCE_MS,
                       .until = began + SAVE_PATIENCE_MS,
                       .on_progress = on_progress,
                       .user = user};

    /* Those that are known to have changed come first: the time may not do for all. */
    for (struct session *s = svc->sessions; s != NULL; s = session_next(s)) {
        s->save_at = 0; /* the last chance */
    }
    save_all(&a);
    doubt_all(svc, began);
    save_all(&a);
    a.patience_ms = svc->config->drain_timeout_ms;
    a.until = clock_ms() + a.patience_ms;
    while (renew_tries(svc) && goes_on(&a)) {
        fiber_sleep(RETRY_MS);
        save_all(&a);
    }
}
