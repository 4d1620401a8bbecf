/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The box of a persistent session: made when it is needed, and made again, with the files that were
 * saved, when it has ended behind our back.
 */
#include "base/fault.h"
#include "base/log.h"
#include "core/box_files.h"
#include "service/service_impl.h"

/* None of its code has run, so it may be tried again: its zygote may have died under it. */
static int open_new(struct session *s, struct err *e)
{
    struct husk_spec spec = {.template_name = s->record.template, .limits = s->limits};
    struct husk_error h;

    s->box = NULL;
    int r = husk_session_open(s->svc->engine, &spec, &s->box, &h);
    if (r < 0 && err_find(h.type) != ERR_LIMIT && err_find(h.type) != ERR_LAUNCHER) {
        fiber_sleep(ZYGOTE_END_MS);
        r = husk_session_open(s->svc->engine, &spec, &s->box, &h);
    }
    return r < 0 ? from_husk(&h, e) : 0;
}

static int open_box(struct session *s, struct err *e)
{
    if (open_new(s, e) < 0) {
        s->box = NULL;
        return -1;
    }
    FAULT_POINT("session.box.opened");
    if (s->restarted && workspace_restore(s, e) < 0) {
        /* Without its files it is not this session: nobody may use it, or save it. */
        husk_session_close(s->box);
        s->box = NULL;
        return -1;
    }
    notebook_keep(s->box, s->id); /* only now, for the same reason: a successor takes it as it is */
    FAULT_POINT("session.box.kept");
    return 0;
}

/* One whose first context could not be made again is no better than one that ended. */
bool box_is_dead(const struct husk_session *box)
{
    return box != NULL && (box->guest->exited || !box->contexts[0].used);
}

static bool can_drop(const struct session *s)
{
    return box_is_dead(s->box) && s->box_users == 0 && !s->files_busy && !s->opening;
}

/*
 * A box that ended behind our back: its files are gone back to what was last saved. One that only
 * has no context still has them. -1: they cannot be saved now, so it stays.
 */
static int drop_dead_box(struct session *s, struct err *e)
{
    while (box_is_dead(s->box) && !can_drop(s)) {
        fiber_sleep(2); /* they see it as well, and go */
    }
    if (box_is_dead(s->box) && !s->box->guest->exited && s->dirty) {
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
        box_files_close(s->files);
        s->files = NULL;
        husk_session_close(s->box);
        s->box = NULL;
        s->restarted = true;
    }
    return 0;
}

int session_box(struct session *s, struct err *e)
{
    /* Others may open it while one waits: what was seen before a wait does not count after it. */
    for (;;) {
        while (s->opening) {
            (void)fiber_queue_wait(&s->opened, -1);
        }
        if (s->ending) {
            return err_set(e, ERR_CONFLICT, "session %s has ended", s->id);
        }
        if (!box_is_dead(s->box)) {
            break;
        }
        if (drop_dead_box(s, e) < 0) {
            return -1;
        }
    }
    if (s->svc->engine->lost) { /* a box that nobody has told dead is dead all the same */
        return engine_lost(e);
    }
    if (s->box != NULL) {
        return 0;
    }
    s->opening = true;
    int r = open_box(s, e);
    s->opening = false;
    fiber_queue_wake_all(&s->opened);
    return r;
}
