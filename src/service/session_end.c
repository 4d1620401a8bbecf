/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a session: nothing of it runs any more, what it left stays for a while; see service.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/str.h"
#include "core/box_files.h"
#include "service/service_impl.h"

/* for an upload or download, which has a connection of its own and fails by itself */
#define FILES_PATIENCE_MS 500
#define CANCEL_PATIENCE_MS 3000

static void cancel_executions(struct session *s)
{
    for (struct execution *x = s->svc->executions; x != NULL; x = execution_next(x)) {
        if (x->session == s) {
            execution_cancel(x);
        }
    }
}

/*
 * Executions that see `cancel` end within a moment, unless the box takes its time: then it is
 * killed, which ends every wait for it. It must have no users when it is closed, and a fiber that
 * changes it may use it right after that: both are checked together, and no user comes later.
 */
static int wait_for_users(struct session *s, struct err *e)
{
    uint64_t until = clock_ms() + CANCEL_PATIENCE_MS;
    uint64_t files_until = clock_ms() + FILES_PATIENCE_MS;

    for (;;) {
        uint64_t now = clock_ms();
        bool has_files = s->files_busy && now < files_until;
        bool has_users = s->working > 0 || s->box_users > 0;
        if (!has_users && !has_files && !session_box_is_changing(s)) {
            return 0;
        }
        if (session_check_ends(s, e) < 0) {
            return -1;
        }
        if (now >= until) {
            bool is_alive = has_users && s->box != NULL && !notebook_has_ended(s->box);
            if (is_alive) {
                notebook_kill(s->box);
            }
            until = is_alive ? UINT64_MAX : now + CANCEL_PATIENCE_MS;
        }
        uint64_t next = has_files ? MIN(until, files_until) : until;
        (void)fiber_queue_wait(&s->idle, next == UINT64_MAX ? -1 : (int64_t)(next - now));
    }
}

/*
 * -1 and *e only if the disk does not take the copy: then the box is the only place that has the
 * files, and stays.
 */
static int close_box(struct session *s, struct err *e)
{
    bool has_files = s->box != NULL && s->persistent && !notebook_has_ended(s->box);
    int r = has_files && (s->dirty || s->saving) ? workspace_save(s, e) : 0;
    if (r < 0 && e->code != ERR_STORAGE && e->code != ERR_QUOTA && e->code != ERR_TIMEOUT &&
        !notebook_has_ended(s->box)) {
        r = workspace_save(s, e); /* its worker was killed: by chance, or again */
    }
    if (r < 0) {
        log_warn("workspace_not_saved", "session=%s: %s", s->id, e->msg);
        if (e->code == ERR_STORAGE) {
            return -1;
        }
    }
    if (s->box != NULL) {
        session_box_close(s);
    }
    return 0;
}

static int close_and_record(struct session *s, int state, const char *reason, struct err *e)
{
    if (close_box(s, e) < 0) {
        return -1;
    }
    FAULT_POINT("session.end.box_closed");
    int to = session_step_exists(s->record.status, state) ? state : SESSION_TERMINATED;
    int r = session_move(s, to, reason, e);
    FAULT_POINT("session.end.recorded");
    return r;
}

/* One that is not in memory: already ended, or never there. */
static int end_stored(struct service *svc, const char *id, struct err *e)
{
    struct store_session *row = NULL;

    int r = store_get_session(svc->store, id, &row, e);
    free(row);
    return r < 0 ? err_set(e, ERR_NOT_FOUND, "there is no session %s", id) : 0;
}

int session_end(struct service *svc, const char *id, int state, const char *reason, struct err *e)
{
    struct session *s;

    s = session_find(svc, id);
    if (s == NULL) {
        return end_stored(svc, id, e);
    }
    session_ref(s);
    if (session_is_ending(s)) { /* by another fiber */
        (void)fiber_queue_wait(&s->ended, -1);
        int done = session_state_is_final(s->record.status)
                       ? 0
                       : err_set(e, ERR_STORAGE, "the end of session %s was not recorded", id);
        session_release(s);
        return done;
    }
    enum session_phase before = s->phase;
    session_phase_step(&s->phase, PHASE_ENDING);
    fiber_queue_wake_all(&s->moved); /* its agent may have another one now */
    cancel_executions(s);
    int r = wait_for_users(s, e);
    /* The fiber that makes it records that it runs: we move it from there. */
    while (session_box_is_changing(s) || s->moving) {
        (void)fiber_queue_wait(s->moving ? &s->moved : &s->opened, -1);
    }
    FAULT_POINT("session.end.idle");
    r = r < 0 ? r : close_and_record(s, state, reason, e);
    if (r < 0) { /* it is there, as its record says, until it is ended again */
        log_error("session_end_not_recorded", "session=%s: %s", s->id, e->msg);
        session_phase_step(&s->phase, before == PHASE_SPENT                  ? PHASE_SPENT
                                      : s->record.status == SESSION_CREATING ? PHASE_STALLED
                                                                             : PHASE_LIVE);
    } else {
        session_phase_step(&s->phase, PHASE_ENDED);
        table_remove_session(svc, s);
        session_release(s); /* the table's */
    }
    fiber_queue_wake_all(&s->ended);
    fiber_queue_wake_all(&s->moved); /* fibers that wait for its maker */
    session_release(s);
    return r;
}

/* 1: another fiber removed it, and there is a new one by that id, which stays. */
static int end_and_delete(struct service *svc, const char *id, struct err *e)
{
    struct session *s = table_session(svc, id);

    bool was_dirty = s != NULL && s->dirty;

    if (s != NULL) {
        s->dirty = false; /* its copy goes anyway */
    }
    if (session_end(svc, id, SESSION_TERMINATED, "removed by a client", e) < 0) {
        s = table_session(svc, id);
        if (s != NULL && s->box != NULL) {
            s->dirty = s->dirty || was_dirty; /* it goes on, and so do its files */
        }
        return -1;
    }
    if (table_session(svc, id) != NULL) {
        return 1;
    }
    AUTO_FREE struct store_session *row = NULL;
    struct store_batch *b = store_batch_new(svc->store);
    if (b == NULL) {
        return err_sys(e, ENOMEM, "remove session %s", id);
    }
    struct err ignored;
    (void)store_get_session(svc->store, id, &row, &ignored); /* none: nothing of it counts */
    store_delete_session(b, id);
    FAULT_POINT("session.purge.before");
    if (service_commit(svc, b, NULL, e) < 0) {
        return -1;
    }
    quota_forget(svc, row != NULL ? (uint64_t)row->kept_bytes : 0);
    return 0;
}

int session_purge(struct service *svc, const char *id, struct err *e)
{
    int r = end_and_delete(svc, id, e);

    if (r < 0 && e->code == ERR_STORAGE) {
        workspace_remove(svc, id); /* makes room on a full disk, for this record too */
        r = end_and_delete(svc, id, e);
    }
    if (r != 0) {
        return r < 0 ? -1 : 0;
    }
    FAULT_POINT("session.purge.recorded");
    workspace_remove(svc, id);
    FAULT_POINT("session.purge.removed");
    return 0;
}
