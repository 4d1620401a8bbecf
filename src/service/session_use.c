/* SPDX-License-Identifier: Apache-2.0 */
/* Using a session: its box, its contexts, its files, what it costs; see service.h. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/str.h"
#include "base/units.h"
#include "box/cgroup.h"
#include "core/box_files.h"
#include "service/impl.h"

#define FILES_PATIENCE_MS 60000
#define END_TRIES 500        /* of 2 ms, from the end of a box to the launcher's word of it */
#define LAST_PATIENCE_MS 500 /* of a session that ends: an upload that stalls does not hold it up */

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
    session_keep(s->box, s->id); /* only now, for the same reason: a successor takes it as it is */
    FAULT_POINT("session.box.kept");
    return 0;
}

/* One whose first context could not be made again is no better than one that ended. */
static bool is_dead(const struct husk_session *box)
{
    return box != NULL && (box->guest->exited || !box->contexts[0].used);
}

static bool can_drop(const struct session *s)
{
    return is_dead(s->box) && s->box_users == 0 && !s->files_busy && !s->opening;
}

/*
 * A box that ended behind our back: its files are gone back to what was last saved. One that only
 * has no context still has them. -1: they cannot be saved now, so it stays.
 */
static int drop_dead_box(struct session *s, struct err *e)
{
    while (is_dead(s->box) && !can_drop(s)) {
        fiber_sleep(2); /* they see it as well, and go */
    }
    if (is_dead(s->box) && !s->box->guest->exited && s->dirty) {
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
        if (!is_dead(s->box)) {
            break;
        }
        if (drop_dead_box(s, e) < 0) {
            return -1;
        }
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

/* ---- turns ---- */

int turn_take(struct session *s, uint32_t context, int64_t timeout_ms, const bool *cancel,
              struct err *e)
{
    struct gate *gate = &s->turns[context].gate;

    gate->places = 1;
    int r = gate_wait(gate, timeout_ms, cancel);
    if (r == -ETIMEDOUT) {
        return err_set(e, ERR_CONFLICT, "context %u of session %s is busy", context, s->id);
    }
    if (r == 0 && s->ending) {
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

/* ---- contexts ---- */

static int need_interpreter(struct session *s, struct err *e)
{
    if (!s->persistent) {
        return err_set(e, ERR_CONFLICT, "session %s is ephemeral: it has no interpreter to keep",
                       s->id);
    }
    return session_box(s, e);
}

size_t session_contexts(struct session *s, struct session_context ret[SESSION_CONTEXTS_MAX])
{
    size_t n = 0;

    if (s->box == NULL || !s->box->contexts[0].used) {
        return 0; /* the next to use it gets a new box */
    }
    for (uint32_t i = 0; i < CONTEXTS_MAX; i++) {
        if (s->box->contexts[i].used) {
            ret[n++] = (struct session_context){.id = i,
                                                .is_checkpoint = s->box->contexts[i].is_checkpoint,
                                                .is_busy = s->turns[i].gate.taken > 0};
        }
    }
    return n;
}

int session_interrupt(struct session *s, uint32_t context, bool *ret_was_running, struct err *e)
{
    if (need_interpreter(s, e) < 0) {
        return -1;
    }
    struct context *c = session_context(s->box, context, false, e);
    if (c == NULL) {
        return -1;
    }
    struct execution *x = s->turns[context].execution; /* NULL: others may have the turn as well */
    if (x == NULL || !x->is_sent) {
        *ret_was_running = x != NULL;
        if (x != NULL) {
            x->interrupted = true;
        }
        return 0;
    }
    s->box_users++; /* a box that does not listen keeps us waiting */
    int r = context_interrupt(s->box->guest, c, ret_was_running, e);
    s->box_users--;
    return r;
}

int session_reset(struct session *s, uint32_t context, struct err *e)
{
    struct husk_error h;

    if (need_interpreter(s, e) < 0 || session_context(s->box, context, false, e) == NULL) {
        return -1;
    }
    if (s->turns[context].execution != NULL) {
        execution_cancel(s->turns[context].execution);
    }
    if (turn_take(s, context, 10000, NULL, e) < 0) {
        return -1;
    }
    int r = session_box(s, e); /* the one of before the wait may be gone */
    if (r == 0) {
        s->box_users++;
        r = husk_session_reset(s->box, context, &h) < 0 ? from_husk(&h, e) : 0;
        s->box_users--;
    }
    turn_give(s, context);
    session_touch(s);
    return r;
}

/* Copies need a context that stands still. */
static int copy(struct session *s, uint32_t context, uint32_t *ret,
                int (*how)(struct husk_session *box, uint32_t context, uint32_t *ret,
                           struct husk_error *e),
                struct err *e)
{
    struct husk_error h;

    if (need_interpreter(s, e) < 0 || session_context(s->box, context, false, e) == NULL ||
        turn_take(s, context, 0, NULL, e) < 0) {
        return -1;
    }
    s->box_users++;
    int r = how(s->box, context, ret, &h) < 0 ? from_husk(&h, e) : 0;
    s->box_users--;
    turn_give(s, context);
    session_touch(s);
    if (r < 0 &&
        e->code == ERR_LIMIT) { /* contexts stay for as long as the session: waiting is no use */
        return err_set(e, ERR_CONFLICT,
                       "session %s has %d contexts and checkpoints, the most there can be: go on "
                       "in one of them, or in another session",
                       s->id, SESSION_CONTEXTS_MAX);
    }
    return r;
}

int session_checkpoint(struct session *s, uint32_t context, uint32_t *ret, struct err *e)
{
    return copy(s, context, ret, husk_session_checkpoint, e);
}

int session_branch(struct session *s, uint32_t context, uint32_t *ret, struct err *e)
{
    return copy(s, context, ret, husk_session_branch, e);
}

int session_restore(struct session *s, uint32_t context, uint32_t checkpoint, struct err *e)
{
    struct husk_error h;

    if (need_interpreter(s, e) < 0 || session_context(s->box, context, false, e) == NULL ||
        session_context(s->box, checkpoint, true, e) == NULL ||
        turn_take(s, context, 0, NULL, e) < 0) {
        return -1;
    }
    s->box_users++;
    int r = husk_session_restore(s->box, context, checkpoint, &h) < 0 ? from_husk(&h, e) : 0;
    s->box_users--;
    turn_give(s, context);
    session_touch(s);
    return r;
}

/* ---- files ---- */

/* Perhaps it was our turn. */
static void files_pass(struct session *s)
{
    if (!s->files_busy) {
        (void)fiber_queue_wake(&s->files_line);
    }
}

/* Until nobody has them. A box that is being opened may not have got its files back yet. */
static int files_await(struct session *s, int64_t patience_ms, struct err *e)
{
    while (s->files_busy || s->opening) {
        if (fiber_queue_wait(s->files_busy ? &s->files_line : &s->opened, patience_ms) < 0) {
            files_pass(s);
            return err_set(e, ERR_TIMEOUT, "the workspace of session %s is busy", s->id);
        }
    }
    return 0;
}

/* Whoever had them last may have left a dead box behind: then there is a new one. */
static int files_box(struct session *s, struct err *e)
{
    do {
        if (session_box(s, e) < 0) {
            files_pass(s);
            return -1;
        }
        if (files_await(s, FILES_PATIENCE_MS, e) < 0) {
            return -1;
        }
    } while (s->box == NULL || is_dead(s->box));
    return 0;
}

struct box_files *session_files_take(struct session *s, struct err *e)
{
    if (!s->persistent) {
        err_set(e, ERR_CONFLICT, "session %s is ephemeral: it has no workspace to keep", s->id);
        return NULL;
    }
    for (unsigned tries = 1; files_box(s, e) == 0; tries++) {
        struct box_files *files = files_take(s, false, e);
        if (files != NULL || e->code != ERR_NOT_FOUND || tries == END_TRIES) {
            return files;
        }
        fiber_sleep(2); /* the box has ended, and the launcher's word of it is on its way */
    }
    return NULL;
}

struct box_files *files_take(struct session *s, bool last, struct err *e)
{
    if (files_await(s, last ? LAST_PATIENCE_MS : FILES_PATIENCE_MS, e) < 0) {
        return NULL;
    }
    if ((s->ending && !last) || s->box == NULL) {
        files_pass(s);
        err_set(e, ERR_CONFLICT, "session %s has ended", s->id);
        return NULL;
    }
    s->files_busy = true;
    s->files_box = s->box;
    struct box_files *files =
        TAKE_PTR(s->files); /* whoever has it owns it: the session may end meanwhile */
    if (files == NULL) {
        s->opening = true; /* the box must stay until it is open */
        files = box_files_open(session_control(s->box), e);
        s->opening = false;
        fiber_queue_wake_all(&s->opened);
    }
    if (files == NULL) {
        s->files_busy = false;
        (void)fiber_queue_wake(&s->files_line);
    }
    session_touch(s);
    return files;
}

void session_files_give(struct session *s, struct box_files *files, bool changed)
{
    if (s->ending || s->box == NULL || s->box != s->files_box || !box_files_is_usable(files)) {
        box_files_close(files);
    } else {
        s->files = files;
    }
    s->dirty = s->dirty || changed;
    s->files_busy = false;
    (void)fiber_queue_wake(&s->files_line);
    session_touch(s);
}

/* ---- cost and receipt ---- */

int session_usage(struct session *s, struct session_usage *ret, struct err *e)
{
    struct launcher_usage now = {.disk_free = UINT64_MAX};

    *ret = (struct session_usage){.disk_used_bytes = UINT64_MAX};
    if (s->box == NULL || s->box->guest->exited) {
        return 0;
    }
    const struct guest *g = s->box->guest;
    uint64_t disk = s->box->limits.disk_bytes;
    ret->box_id = g->box_id;
    if (guest_usage(s->svc->engine, g, true, &now, e) < 0) {
        return -1;
    }
    ret->cpu_time_ms = (double)now.cpu_ns / NS_PER_MS;
    ret->memory_mb = (double)now.memory_now / MIB;
    ret->peak_memory_mb = (double)now.memory_peak / MIB;
    ret->io_read_bytes = now.io_read;
    ret->io_write_bytes = now.io_write;
    ret->processes = (uint32_t)now.pids_peak;
    if (now.disk_free != UINT64_MAX) {
        ret->disk_used_bytes = disk - MIN(disk, now.disk_free);
    }
    return 0;
}

int session_receipt(struct session *s, struct husk_receipt *ret, struct err *e)
{
    if (s->box == NULL) {
        return err_set(e, ERR_CONFLICT, "session %s has no box now", s->id);
    }
    run_receipt(s->box->guest, &s->box->limits, true, ret);
    return 0;
}

int session_extend(struct session *s, uint64_t timeout_ms, struct err *e)
{
    struct store_batch *b = store_batch_new(s->svc->store);
    uint64_t before = s->timeout_ms;

    if (b == NULL) {
        return err_sys(e, ENOMEM, "session");
    }
    /*
     * Before it is durable: whoever records the session meanwhile would write the old time behind
     * it.
     */
    s->timeout_ms = timeout_ms;
    session_touch(s);
    s->record.updated_ms = s->record.active_ms;
    store_put_session(b, &s->record);
    int r = service_commit(s->svc, b, NULL, e);
    FAULT_POINT("session.extended");
    if (r < 0 && s->timeout_ms == timeout_ms) { /* what is refused does not hold */
        s->timeout_ms = before;
        session_touch(s);
    }
    return r;
}
