/* SPDX-License-Identifier: Apache-2.0 */
/* The contexts of a session, and whose turn it is in each of them; see service.h. */
#include <errno.h>

#include "base/str.h"
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
        if (notebook_has_context(s->box, i) && !notebook_is_command(s->box, i)) {
            const char *language = template_language_name(notebook_language(s->box, i));
            ret[n++] = (struct session_context){.id = i,
                                                .language = language,
                                                .is_checkpoint = notebook_is_checkpoint(s->box, i),
                                                .is_busy = s->turns[i].gate.is_taken};
        }
    }
    return n;
}

const char *session_context_language(const struct session *s, uint32_t context)
{
    return s->box != NULL && notebook_has_context(s->box, context)
               ? template_language_name(notebook_language(s->box, context))
               : NULL;
}

/* Only a Python template has an interpreter of Python. */
static int check_language(const struct session *s, const char *language, enum husk_language *ret,
                          struct err *e)
{
    const char *own = engine_language(s->svc->engine, s->record.template);

    if (!template_language_find(language, ret)) {
        return err_set(e, ERR_INVALID, "there is no language %s", language);
    }
    if (*ret == HUSK_PYTHON && (own == NULL || !str_eq(own, "python"))) {
        return err_set(e, ERR_CONFLICT, "template %s has no python: use a session of another one",
                       s->record.template);
    }
    return 0;
}

/* Contexts stay for as long as the session: waiting is no use. */
static int say_full(const struct session *s, struct err *e)
{
    return e->code != ERR_LIMIT
               ? -1
               : err_set(e, ERR_CONFLICT,
                         "session %s has %d contexts and checkpoints, the most there can be, or no "
                         "room for another process: go on in one of them, or in another session",
                         s->id, CONTEXTS_MAX);
}

int session_new_context(struct session *s, const char *language, uint32_t *ret, struct err *e)
{
    enum husk_language which;
    const char *own = session_language(s);

    if (check_language(s, language != NULL || own == NULL ? language : own, &which, e) < 0 ||
        need_interpreter(s, e) < 0) {
        return -1;
    }
    (void)session_box_hold(s);
    int r = notebook_new_context(s->box, which, ret, e) < 0 ? box_failed(s, e) : 0;
    session_box_give(s);
    session_touch(s);
    return r < 0 ? say_full(s, e) : 0;
}

int session_context_for(struct session *s, const char *language, uint32_t *ret, struct err *e)
{
    const char *own = session_language(s);
    enum husk_language which;

    *ret = 0;
    if (own != NULL && str_eq(own, language)) {
        return 0; /* the first one; an execution makes its box if there is none */
    }
    if (check_language(s, language, &which, e) < 0 || need_interpreter(s, e) < 0) {
        return -1;
    }
    while (s->adding_context) {
        (void)fiber_queue_wait(&s->opened, -1);
        if (need_interpreter(s, e) < 0) {
            return -1;
        }
    }
    if (notebook_find_language(s->box, which, ret)) {
        return 0;
    }
    s->adding_context = true;
    int r = session_new_context(s, language, ret, e);
    s->adding_context = false;
    fiber_queue_wake_all(&s->opened);
    return r;
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
    return r < 0 ? say_full(s, e) : 0;
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
