/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions at the start of a daemon, once their boxes and cells are back (adopt.c): what cannot go
 * on ends, what was begun is finished.
 */
#include "base/log.h"
#include "base/str.h"
#include "service/service_impl.h"

/*
 * A cell that is neither recorded nor kept may run in a box: its client is gone, and so is its time
 * limit. A context that does nothing ignores the signal.
 */
static void interrupt_forsaken(struct service *svc)
{
    for (struct session *s = svc->sessions; s != NULL; s = session_next(s)) {
        if (s->box_phase == BOX_OPEN && s->working == 0) {
            notebook_interrupt_idly(s->box, 0);
        }
    }
}

/* Its creation was never acknowledged: a client that asks again begins anew, by any id. */
static void remove_unmade(struct session *s)
{
    char id[STORE_ID_MAX + 1];
    struct err e = {0};

    if (str_copy(id, sizeof(id), s->id) == 0 && session_purge(s->svc, id, &e) < 0) {
        log_warn("session_not_removed", "session=%s: %s, ignoring", id, e.msg);
    }
}

/*
 * Ephemeral sessions end with their execution, which is over now. Unfinished creations were never
 * answered: one with a key is finished, for its caller will ask again, and so is one that was used
 * by its id, which the list of sessions shows, or may have been: files leave no record, but a box
 * that was kept may hold them. Nothing of the others is kept. Work in one of them is not
 * waited for here: its fiber goes on only when we are done.
 */
static void settle(struct service *svc)
{
    struct session *s;
    struct session *next;
    struct err e = {0};

    for (s = svc->sessions, next = session_next(s); s != NULL; s = next, next = session_next(s)) {
        bool had_its_run = session_is_spent(s);
        bool may_have_files = s->persistent && s->box != NULL;
        bool is_unmade = s->record.status == SESSION_CREATING;
        bool is_kept = s->keyed || s->record.executions > 0 || may_have_files;
        if (is_unmade && is_kept) {
            if (session_move(s, SESSION_RUNNING, "", &e) == 0) {
                session_phase_step(&s->phase, PHASE_LIVE);
            }
        } else if (is_unmade && s->working == 0) {
            remove_unmade(s);
            continue;
        }
        if (s->working == 0 && had_its_run) {
            const char *why = "the server was restarted";
            if (session_end(svc, s->id, SESSION_COMPLETED, why, &e) < 0 &&
                session_phase_can(s->phase, PHASE_SPENT)) {
                session_phase_step(&s->phase, PHASE_SPENT);
            }
        }
    }
}

void sessions_settle(struct service *svc)
{
    settle(svc);
    interrupt_forsaken(svc);
}
