/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The box of a persistent session: made when it is needed, and made again, with the files that were
 * saved, when it has ended behind our back.
 */
#include "base/fault.h"
#include "base/log.h"
#include "core/box_files.h"
#include "service/service_impl.h"

static int open_box(struct session *s, struct err *e)
{
    const struct husk_spec spec = {.template_name = s->record.template, .limits = s->limits};

    s->box = NULL;
    if (notebook_open(s->svc->engine, &spec, &s->box, e) < 0) {
        return -1;
    }
    FAULT_POINT("session.box.opened");
    if (s->restarted && workspace_restore(s, e) < 0) {
        /* Without its files it is not this session: nobody may use it, or save it. */
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

static bool can_drop(const struct session *s)
{
    return session_box_is_dead(s) && s->box_users == 0 && !s->files_busy && !s->opening;
}

/*
 * A box that ended behind our back: its files are gone back to what was last saved. One that only
 * has no context still has them. -1: they cannot be saved now, so it stays.
 */
static int drop_dead_box(struct session *s, struct err *e)
{
    while (session_box_is_dead(s) && !can_drop(s)) {
        fiber_sleep(2); /* they see it as well, and go */
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
        box_files_close(s->files);
        s->files = NULL;
        notebook_close(s->box);
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
        if (!session_box_is_dead(s)) {
            break;
        }
        if (drop_dead_box(s, e) < 0) {
            return -1;
        }
    }
    if (engine_is_lost(s->svc->engine)) { /* no word of its box's end will come */
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
