/* SPDX-License-Identifier: Apache-2.0 */
/* The contexts of a session, and whose turn it is in each of them; see service.h. */
#include <errno.h>

#include "service/service_impl.h"

/* ---- turns ---- */

int turn_take(struct session *s, uint32_t context, int64_t timeout_ms, bool in_front,
              const bool *cancel, struct err *e)
{
    struct gate *gate = &s->turns[context].gate;

    int r = gate_wait(gate, timeout_ms, in_front, cancel);
    if (r == -ETIMEDOUT) {
        return err_set(e, ERR_CONFLICT, "context %u of session %s is busy", context, s->id);
    }
    if (r == 0 && session_is_ending(s)) {
        gate_leave(gate);
        r = -ECANCELED;
    }
    return r < 0
               ? err_set(e, ERR_CONFLICT, "session %s has ended, or the wait was cancelled", s->id)
               : 0;
}

void turn_give(struct session *s, uint32_t context)
{
    struct turn *t = &s->turns[context];

    t->execution = NULL;
    gate_leave(&t->gate);
}

/* ---- a box that ends while it is asked ---- */

/*
 * What was asked of a box, which the caller holds, did not work. If it ended meanwhile, that is the
 * reason, whatever its sockets reported on the way down. Returns -1.
 */
static int box_failed(struct session *s, struct err *e)
{
    if (notebook_await_end(s->box, END_PATIENCE_MS, e) == 0) {
        return err_set(e, ERR_CONFLICT,
                       "the box of session %s has ended, and its variables with it", s->id);
    }
    return -1;
}

/* ---- contexts ---- */

static int need_interpreter(struct session *s, struct err *e)
{
    if (!s->persistent) {
        return err_set(e, ERR_CONFLICT, "session %s is ephemeral: it has no interpreter to keep",
                       s->id);
    }
    return session_box(s, e);
}

size_t session_contexts(struct session *s, struct session_context ret[CONTEXTS_MAX])
{
    size_t n = 0;

    if (s->box == NULL || !notebook_has_context(s->box, 0)) {
        return 0; /* the next to use it gets a new box */
    }
    for (uint32_t i = 0; i < CONTEXTS_MAX; i++) {
        if (notebook_has_context(s->box, i)) {
            ret[n++] = (struct session_context){.id = i,
                                                .is_checkpoint = notebook_is_checkpoint(s->box, i),
                                                .is_busy = s->turns[i].gate.is_taken};
        }
    }
    return n;
}

const char *session_running(const struct session *s, uint32_t context)
{
    const struct execution *x = context < CONTEXTS_MAX ? s->turns[context].execution : NULL;

    return x != NULL && x->row == ROW_STORED && x->record.status == EXECUTION_RUNNING ? x->id
                                                                                      : NULL;
}

int session_interrupt(struct session *s, uint32_t context, bool *ret_was_running, struct err *e)
{
    if (need_interpreter(s, e) < 0 || notebook_check_context(s->box, context, false, e) < 0) {
        return -1;
    }
    struct execution *x = s->turns[context].execution; /* NULL: others may have the turn as well */
    if (x == NULL || x->cell <= CELL_INTERRUPTED) {
        *ret_was_running = x != NULL;
        if (x != NULL) {
            cell_phase_step(&x->cell, CELL_INTERRUPTED);
        }
        return 0;
    }
    (void)session_box_hold(s); /* a box that does not listen keeps us waiting */
    int r = notebook_interrupt(s->box, context, ret_was_running, e) < 0 ? box_failed(s, e) : 0;
    session_box_give(s);
    return r;
}

int session_reset(struct session *s, uint32_t context, struct err *e)
{
    if (need_interpreter(s, e) < 0 || notebook_check_context(s->box, context, false, e) < 0) {
        return -1;
    }
    if (s->turns[context].execution != NULL) {
        execution_cancel(s->turns[context].execution);
    }
    /* Before executions that wait: they are to find the fresh interpreter. */
    if (turn_take(s, context, 10000, true, NULL, e) < 0) {
        return -1;
    }
    int r = session_box(s, e); /* the one of before the wait may be gone */
    if (r == 0) {
        (void)session_box_hold(s);
        r = notebook_reset(s->box, context, e) < 0 ? box_failed(s, e) : 0;
        session_box_give(s);
    }
    turn_give(s, context);
    session_touch(s);
    return r;
}

/* Only an idle context can be copied. */
static int copy(struct session *s, uint32_t context, uint32_t *ret,
                int (*how)(struct notebook *box, uint32_t context, uint32_t *ret, struct err *e),
                struct err *e)
{
    if (need_interpreter(s, e) < 0 || notebook_check_context(s->box, context, false, e) < 0 ||
        turn_take(s, context, 0, false, NULL, e) < 0) {
        return -1;
    }
    (void)session_box_hold(s);
    int r = how(s->box, context, ret, e) < 0 ? box_failed(s, e) : 0;
    session_box_give(s);
    turn_give(s, context);
    session_touch(s);
    /* Contexts stay for as long as the session: waiting is no use. */
    if (r < 0 && e->code == ERR_LIMIT) {
        return err_set(e, ERR_CONFLICT,
                       "session %s has %d contexts and checkpoints, the most there can be: go on "
                       "in one of them, or in another session",
                       s->id, CONTEXTS_MAX);
    }
    return r;
}

int session_checkpoint(struct session *s, uint32_t context, uint32_t *ret, struct err *e)
{
    return copy(s, context, ret, notebook_checkpoint, e);
}

int session_branch(struct session *s, uint32_t context, uint32_t *ret, struct err *e)
{
    return copy(s, context, ret, notebook_branch, e);
}

int session_restore(struct session *s, uint32_t context, uint32_t checkpoint, struct err *e)
{
    if (need_interpreter(s, e) < 0 || notebook_check_context(s->box, context, false, e) < 0 ||
        notebook_check_context(s->box, checkpoint, true, e) < 0 ||
        turn_take(s, context, 0, false, NULL, e) < 0) {
        return -1;
    }
    (void)session_box_hold(s);
    int r = notebook_restore(s->box, context, checkpoint, e) < 0 ? box_failed(s, e) : 0;
    session_box_give(s);
    turn_give(s, context);
    session_touch(s);
    return r;
}
