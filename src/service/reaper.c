/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Once a second: sessions that are over their limits, boxes that died, records past their time,
 * copies of workspaces, pools.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "service/service_impl.h"

#define ROUND_MS 1000
#define SPENT_EVERY 5  /* rounds: a full disk is not tried all the time */
#define PURGE_EVERY 60 /* rounds, if the last one left nothing */
#define PURGE_PAGES 8  /* in one round: other work waits meanwhile */

static const char *why_over(const struct session *s, uint64_t now)
{
    const struct config *c = s->svc->config;

    if (session_is_ending(s) || session_box_is_changing(s) || s->working > 0) {
        return NULL; /* limits are measured by work: it works */
    }
    if (s->dirty && now < s->save_at) {
        return NULL; /* its files could not be saved, and are only in its box */
    }
    if (now - s->active_ms > s->timeout_ms && s->record.on_idle <= ON_IDLE_END) {
        return "idle for too long";
    }
    if (now - s->born_ms > (s->lifetime_ms != 0 ? s->lifetime_ms : c->session_lifetime_ms)) {
        return "past its lifetime";
    }
    return NULL;
}

/* The table may change while we wait: one at a time, and from the start again. */
static bool end_one(struct service *svc, bool spent)
{
    uint64_t now = clock_ms();
    struct err e = {0};

    for (struct session *s = svc->sessions; s != NULL; s = session_next(s)) {
        const char *why = spent && s->phase == PHASE_SPENT ? "its execution is over" : NULL;
        int to = why != NULL ? SESSION_COMPLETED : SESSION_TIMEOUT;
        why = why != NULL ? why : why_over(s, now);
        if (why != NULL) {
            char id[ID_SIZE];
            (void)str_copy(id, sizeof(id), s->id);
            if (session_end(svc, id, to, why, &e) < 0) {
                log_warn("session_not_ended", "session=%s: %s", id, e.msg);
                return false;
            }
            return true;
        }
    }
    return false;
}

/* Records of sessions that ended longer ago than they are kept. True: there are more of them. */
static bool purge(struct service *svc)
{
    int64_t now = clock_wall_ms();
    struct store_read past = {
        .kind = STORE_SESSIONS,
        .filter.ended_before = now - (int64_t)svc->config->session_retention_ms,
    };
    struct err e = {0};

    if (service_read(svc, &past, &e) < 0) {
        log_warn("records_not_purged", "%s", e.msg);
        return false;
    }
    struct store_session_list list = past.sessions;
    struct store_batch *b = store_batch_new(svc->store);
    if (b == NULL) {
        store_session_list_release(&list);
        return false;
    }
    store_expire_keys(b, now);
    for (size_t i = 0; i < list.n; i++) {
        store_delete_session(b, list.rows[i]->id);
    }
    int r = service_commit(svc, b, NULL, &e);
    if (r < 0) {
        log_warn("records_not_purged", "%s", e.msg);
    }
    /* Only now: a session whose record stays keeps its files. */
    for (size_t i = 0; r == 0 && i < list.n; i++) {
        quota_forget(svc, (uint64_t)list.rows[i]->kept_bytes);
        workspace_remove(svc, list.rows[i]->id);
    }
    bool has_more = r == 0 && list.next != 0;
    store_session_list_release(&list);
    return has_more;
}

static bool purge_pages(struct service *svc)
{
    bool has_more = true;

    for (int i = 0; i < PURGE_PAGES && has_more && !svc->closing; i++) {
        has_more = purge(svc);
    }
    return has_more;
}

/* Boxes that began to say something and never finished it. */
static void end_overdue(struct service *svc)
{
    for (struct session *s = svc->sessions; s != NULL; s = session_next(s)) {
        if (s->box_phase == BOX_OPEN && notebook_end_overdue(s->box)) {
            log_warn("box_ended", "session=%s: it began a frame and did not finish it", s->id);
        }
    }
}

static void on_replaced(void *user, const char *template_name, uint64_t boxes, const struct err *e)
{
    (void)user;
    if (e == NULL) {
        log_info("zygote_replaced", "template=%s boxes=%llu", template_name,
                 (unsigned long long)boxes);
    } else {
        log_warn("zygote_not_replaced", "template=%s: %s", template_name, e->msg);
    }
}

static void care_for_zygotes(struct service *svc)
{
    const struct config *c = svc->config;
    const struct zygote_policy policy = {.max_age_ms = c->zygote_max_age_ms,
                                         .max_boxes = c->zygote_max_boxes,
                                         .on_replaced = on_replaced};

    engine_adjust_pools(svc->engine, c->pool_idle_ms / ROUND_MS);
    engine_sweep_templates(svc->engine);
    engine_rotate_zygotes(svc->engine, &policy);
}

static void reap(void *user)
{
    struct service *svc = user;
    unsigned rounds = 0;
    bool has_more = false; /* to purge */

    svc->reaper = fiber_self();
    while (!svc->closing) {
        (void)fiber_poll(NULL, 0, ROUND_MS);
        if (!svc->closing && engine_is_lost(svc->engine) && svc->on_launcher_lost != NULL) {
            fiber_queue_wake_all(&svc->readiness.readied);
            svc->on_launcher_lost(svc->user);
            svc->on_launcher_lost = NULL;
        }
        while (!svc->closing && !engine_is_lost(svc->engine) &&
               end_one(svc, rounds % SPENT_EVERY == 0)) {
        }
        while (!svc->closing && !engine_is_lost(svc->engine) &&
               workspace_save_next(svc, false) != SAVE_NONE) {
        }
        while (!svc->closing && !engine_is_lost(svc->engine) && session_rest_next(svc)) {
        }
        if (!svc->closing) {
            end_overdue(svc);
            service_settle(svc);
            spool_retry(svc);
            care_for_zygotes(svc);
        }
        if (rounds++ % PURGE_EVERY == 0 || has_more) {
            has_more = purge_pages(svc);
        }
    }
    svc->reaper = NULL;
}

int reaper_start(struct service *svc, struct err *e)
{
    int r = fiber_start(reap, svc);

    return r < 0 ? err_sys(e, -r, "start a fiber") : 0;
}
