/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an idle session does instead of ending: it is parked or frozen until it is used again; see
 * service.h.
 *
 * Both only while nothing uses it, and after its files were saved once more: a process that a cell
 * left behind may have changed them. Parked: the box is closed and the record says so; the next use
 * opens another with the files (session_box.c), and the next result reports the loss of variables.
 * Frozen: the launcher stops the box and remembers it, so a successor of this process finds it
 * frozen; the next use has it thawed. A frozen box stays as it was saved.
 */
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "service/service_impl.h"

#define RETRY_MS 10000

/* One whose box was lost waits for its next use like one that was parked. */
enum session_rest session_rest(const struct session *s)
{
    bool is_without_box =
        s->box_phase == BOX_ABSENT && s->persistent && s->record.status == SESSION_RUNNING;

    if (s->box_phase == BOX_FROZEN) {
        return REST_FROZEN;
    }
    return is_without_box && s->record.on_idle > ON_IDLE_END ? REST_PARKED : REST_NOT;
}

int session_check_on_idle(struct service *svc, bool persistent, int on_idle, struct err *e)
{
    if (on_idle <= ON_IDLE_END) {
        return 0;
    }
    if (!persistent) {
        return err_set(e, ERR_INVALID,
                       "on_idle must be end for an ephemeral session: it has nothing to keep");
    }
    if (on_idle == ON_IDLE_FREEZE && !engine_can_freeze(svc->engine)) {
        return err_set(e, ERR_INVALID,
                       "on_idle cannot be freeze on this server: it needs a cgroup v2 tree that "
                       "it may write to, with cgroup.freeze (Linux 5.2); use park");
    }
    return 0;
}

static bool is_idle(const struct session *s)
{
    return s->phase == PHASE_LIVE && s->working == 0 && s->box_users == 0 && !s->files_busy &&
           s->files_readers == 0 && s->box_phase == BOX_OPEN && !session_box_is_dead(s);
}

static bool is_due(const struct session *s, uint64_t now)
{
    return s->record.on_idle > ON_IDLE_END && s->record.status == SESSION_RUNNING && is_idle(s) &&
           now - s->active_ms > s->timeout_ms && now >= s->rest_at &&
           !(s->dirty && now < s->save_at);
}

/* False: it could not be saved, or it was used meanwhile. */
static bool save_last(struct session *s, struct err *e)
{
    uint64_t active = s->active_ms;
    uint64_t uses = s->uses;

    s->dirty = s->dirty || s->record.executions > 0;
    int r = workspace_save(s, e);
    if (s->uses == uses) {
        s->active_ms = active; /* saving is no activity of the session */
    }
    return r == 0 && s->uses == uses && !s->dirty && is_idle(s);
}

static int park(struct session *s, struct err *e)
{
    session_box_close(s);
    s->record.restart = RESTART_PARKED;
    FAULT_POINT("session.parked.before");
    struct store_batch *b = store_batch_new(s->svc->store);
    if (b == NULL) {
        return err_set(e, ERR_SYSTEM, "out of memory");
    }
    store_put_session(b, &s->record);
    int r = service_commit(s->svc, b, NULL, e);
    FAULT_POINT("session.parked.after");
    return r;
}

static int freeze(struct session *s, struct err *e)
{
    session_box_step(s, BOX_FREEZING);
    int r = notebook_freeze(s->box, true, e);
    FAULT_POINT("session.frozen");
    session_box_step(s, r == 0 ? BOX_FROZEN : BOX_OPEN);
    return r;
}

int session_thaw(struct session *s, struct err *e)
{
    session_box_step(s, BOX_THAWING);
    int r = notebook_freeze(s->box, false, e);
    FAULT_POINT("session.thawed");
    session_box_step(s, r == 0 ? BOX_OPEN : BOX_FROZEN);
    session_touch(s);
    if (r == 0) {
        log_info("session_thawed", "session=%s", s->id);
    }
    return r;
}

static void rest(struct session *s)
{
    bool is_park = s->record.on_idle == ON_IDLE_PARK;
    struct err e = {0};

    bool is_saved = save_last(s, &e);
    if (!is_saved && e.code == ERR_NONE) {
        return; /* it was used */
    }
    int r = !is_saved ? -1 : is_park ? park(s, &e) : freeze(s, &e);
    if (r < 0) {
        s->rest_at = clock_ms() + RETRY_MS;
        log_warn("session_not_resting", "session=%s: %s", s->id, e.msg);
    } else {
        log_info(is_park ? "session_parked" : "session_frozen", "session=%s", s->id);
    }
}

bool session_rest_next(struct service *svc)
{
    uint64_t now = clock_ms();

    for (struct session *s = svc->sessions; s != NULL; s = session_next(s)) {
        if (is_due(s, now)) {
            session_ref(s);
            rest(s);
            session_release(s);
            return true; /* that was a wait: the table may be another one now */
        }
    }
    return false;
}
