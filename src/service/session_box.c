/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The box of a persistent session: opened when it is needed, and again, with the files that were
 * saved, when it has ended by itself.
 */
#include "base/fault.h"
#include "base/log.h"
#include "core/box_files.h"
#include "service/service_impl.h"

static int open_box(struct session *s, struct err *e)
{
    const struct husk_spec spec = {.template_name = s->record.template, .limits = s->limits};

    enum husk_language asked;
    const struct notebook_options options = {
        .language = template_language_find(s->language, &asked) ? (int)asked : -1,
        .is_freezable = s->record.on_idle == ON_IDLE_FREEZE,
    };

    s->box = NULL;
    if (notebook_open(s->svc->engine, &spec, &options, &s->box, e) < 0) {
        return -1;
    }
    s->is_loss_told = false;
    s->record.box = (int64_t)notebook_box_id(s->box);
    FAULT_POINT("session.box.opened");
    if (s->restarted && workspace_restore(s, e) < 0) {
        /* Without its files it is not this session: it must be neither used nor saved. */
        notebook_close(s->box);
        s->box = NULL;
        return -1;
    }
    notebook_keep(s->box, s->id); /* only now, for the same reason: a successor takes it as it is */
    FAULT_POINT("session.box.kept");
    return 0;
}

bool session_box_is_dead(const struct session *s)
{
    return s->box != NULL && notebook_is_dead(s->box);
}

bool session_box_is_changing(const struct session *s)
{
    return s->box_phase == BOX_OPENING || s->box_phase == BOX_ATTACHING ||
           s->box_phase == BOX_FREEZING || s->box_phase == BOX_THAWING;
}

void session_box_step(struct session *s, enum box_phase to)
{
    box_phase_step(&s->box_phase, to);
    fiber_queue_wake_all(&s->opened);
    fiber_queue_wake_all(&s->idle);
}

struct notebook *session_box_hold(struct session *s)
{
    s->box_users++;
    return s->box;
}

void session_box_give(struct session *s)
{
    s->box_users--;
    fiber_queue_wake_all(&s->idle);
}

void session_box_close(struct session *s)
{
    box_files_close(s->files);
    s->files = NULL;
    workspace_box_gone(s);
    notebook_close(s->box);
    s->box = NULL;
    s->restarted = true; /* should it go on */
    session_box_step(s, BOX_ABSENT);
}

void session_note_restart(struct session *s, enum session_restart why)
{
    if (!s->is_loss_told && s->record.restart == RESTART_NONE) {
        s->record.restart = (int)why;
    }
}

const char *session_take_restart(struct session *s)
{
    static const char *const words[] = {
        [RESTART_BOX_LOST] = "box_lost", [RESTART_PARKED] = "parked"};
    int why = s->record.restart;

    s->record.restart = RESTART_NONE;
    return why >= 0 && (size_t)why < ARRAY_LEN(words) ? words[why] : NULL;
}

int session_check_ends(const struct session *s, struct err *e)
{
    for (const struct execution *x = s->svc->executions; x != NULL; x = execution_next(x)) {
        if (x->session == s && x->end == END_WAITING) {
            return err_set(e, ERR_STORAGE, "session %s: a result waits for the disk", s->id);
        }
    }
    return 0;
}

static bool can_drop(const struct session *s)
{
    return session_box_is_dead(s) && s->box_users == 0 && !s->files_busy &&
           !session_box_is_changing(s);
}

/*
 * A box that ended by itself: its files are as they were last saved. One that only lost its first
 * context still has them; -1: they cannot be saved now, so it stays.
 */
static int drop_dead_box(struct session *s, struct err *e)
{
    while (session_box_is_dead(s) && !can_drop(s)) {
        if (session_check_ends(s, e) < 0) { /* it holds the box for as long as the disk is full */
            return -1;
        }
        (void)fiber_queue_wait(&s->idle, -1); /* its users see it as well, and go */
    }
    if (session_box_is_dead(s) && !notebook_has_ended(s->box) && s->dirty) {
        if (workspace_save(s, e) == 0) {
            return 0; /* that was a wait: the caller looks again */
        }
        log_warn("workspace_not_saved", "session=%s: %s", s->id, e->msg);
        if (e->code == ERR_STORAGE) {
            return -1;
        }
    }
    if (can_drop(s)) {
        log_info("session_box_ended", "session=%s", s->id);
        session_box_close(s);
        session_note_restart(s, RESTART_BOX_LOST);
    }
    return 0;
}

/* One that has just ended is dropped next. */
static int thaw(struct session *s, struct err *e)
{
    return session_thaw(s, e) < 0 && e->code != ERR_NOT_FOUND ? -1 : 0;
}

int session_box(struct session *s, struct err *e)
{
    /* Others may open it while one waits: what was seen before a wait does not count after it. */
    for (;;) {
        while (session_box_is_changing(s)) {
            (void)fiber_queue_wait(&s->opened, -1);
        }
        if (session_is_ending(s)) {
            return err_set(e, ERR_CONFLICT, "session %s has ended", s->id);
        }
        bool is_dead = session_box_is_dead(s);
        if (!is_dead && s->box_phase != BOX_FROZEN) {
            break;
        }
        if (is_dead ? drop_dead_box(s, e) < 0 : thaw(s, e) < 0) {
            return -1;
        }
    }
    s->uses++;
    if (engine_is_lost(s->svc->engine)) { /* no word of its box's end will come */
        return engine_lost(e);
    }
    if (s->box != NULL) {
        return 0;
    }
    session_box_step(s, BOX_OPENING);
    int r = open_box(s, e);
    session_box_step(s, r == 0 ? BOX_OPEN : BOX_ABSENT);
    return r;
}
