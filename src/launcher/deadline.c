/* SPDX-License-Identifier: Apache-2.0 */
/* Deadlines of boxes, and of zygotes that have to start or reap one; see launcher.h. */
#include <signal.h>

#include "base/clock.h"
#include "base/units.h"
#include "box/sys.h"
#include "launcher/launcher.h"

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

void box_owed(struct launcher *l, struct box_entry *box)
{
    box->zygote_by = clock_ns() + (uint64_t)ZYGOTE_PATIENCE_MS * NS_PER_MS;
    l->next_deadline = earlier(l->next_deadline, box->zygote_by);
}

void template_arm(struct launcher *l, struct template *t, uint64_t ms)
{
    t->start_deadline = clock_ns() + ms * NS_PER_MS;
    l->next_deadline = earlier(l->next_deadline, t->start_deadline);
}

/*
 * A box that waited has closed them; one that is kept has them open. If no descriptors are left,
 * the limits hold all the same, and only their events are late.
 */
static void open_counters(const struct box_entry *box)
{
    if (box->kept == NULL) {
        (void)cgroup_unfold(box->cgroup);
    }
}

void box_arm(struct launcher *l, struct box_entry *box, uint64_t ms)
{
    uint64_t now = clock_ns();
    uint64_t watch = l->watch_oom ? now + (uint64_t)OOM_WATCH_MS * NS_PER_MS : 0;

    open_counters(box);
    box->deadline = now + ms * NS_PER_MS;
    l->next_deadline = earlier(earlier(l->next_deadline, box->deadline), watch);
}

/* Tells the client that a box is over although its zygote has not reported it. */
static void announce_end(struct launcher *l, struct box_entry *box)
{
    struct launcher_rep rep = {
        .event = LAUNCHER_EV_EXIT,
        .template_id = box->template_id,
        .box_id = box->id,
        .box = {.wait_status = SIGKILL, .end = box->end},
    };

    if (!box->silent && !box->probe) {
        usage_fill(box, false, &rep.box.usage);
        reply(l, &rep);
    }
    if (box->kept != NULL) {
        keep_exit(box, &rep);
    }
    box->silent = box->kept == NULL; /* a kept box is reported again when it is reaped */
}

static void linger(struct launcher *l, struct box_entry *box)
{
    l->spawning -= box->state == BOX_SPAWNING;
    l->ending -= box->state == BOX_ENDING;
    box->state = BOX_LINGERING;
    box->deadline = 0;
    box->zygote_by = 0;
}

void box_doom(struct launcher *l, uint32_t template_id)
{
    for (size_t i = 0; i < BOXES_MAX; i++) {
        struct box_entry *box = &l->boxes[i];
        if (box->template_id == template_id && box->state != BOX_FREE &&
            box->state < BOX_LINGERING) {
            box->end = box->end == LAUNCHER_END_SELF ? LAUNCHER_END_ZYGOTE : box->end;
            announce_end(l, box);
            linger(l, box);
        }
    }
}

/* A zygote that works is not stuck: on a busy machine it may have many boxes to start first. */
static bool is_stuck(const struct launcher *l, struct box_entry *box, uint64_t now)
{
    uint64_t worked = l->templates[box->template_id].worked;

    box->zygote_by = worked + (uint64_t)ZYGOTE_PATIENCE_MS * NS_PER_MS;
    return box->zygote_by <= now;
}

/*
 * A box that its zygote has to start or reap. A stuck zygote delays no deadline; one that does not
 * start a box is replaced. How long reaping takes is up to the box, which can leave the kernel
 * minutes of work: that never kills the zygote, and with it all other boxes. The client is told
 * that the box is over, and new boxes no longer wait for it.
 */
static uint64_t expire_owed(struct launcher *l, struct box_entry *box, uint64_t now)
{
    if (box->state == BOX_SPAWNING && box->deadline != 0 && box->deadline <= now) {
        box_end(l, box, LAUNCHER_END_TIMEOUT);
        announce_end(l, box);
    }
    if (box->zygote_by == 0 || box->zygote_by > now) {
        return earlier(box->deadline, box->zygote_by);
    }
    if (box->state != BOX_SPAWNING) {
        announce_end(l, box);
        linger(l, box);
    } else if (is_stuck(l, box, now)) {
        template_died(l, box->template_id);
    } else {
        return earlier(box->deadline, box->zygote_by);
    }
    return 0;
}

/* When a live box has to be checked again, 0 for never. */
static uint64_t expire_live(struct launcher *l, struct box_entry *box, uint64_t now)
{
    if (box->deadline == 0) {
        return 0;
    }
    if (box->deadline <= now) {
        box_end(l, box, LAUNCHER_END_TIMEOUT);
        return box->zygote_by;
    }
    if (!l->watch_oom) {
        return box->deadline;
    }
    open_counters(box);
    if (cgroup_oom_kills(box->cgroup) > 0) {
        box_end(l, box, LAUNCHER_END_OOM);
        return box->zygote_by;
    }
    return earlier(box->deadline, now + (uint64_t)OOM_WATCH_MS * NS_PER_MS);
}

static void expire_start(struct launcher *l, uint32_t id)
{
    struct template *t = &l->templates[id];
    struct err e = {0};

    t->start_deadline = 0;
    if (t->state == TEMPLATE_BUILDING) {
        err_set(&e, ERR_TEMPLATE,
                t->ticket != 0 ? "the supervisor sent no definition of %s"
                               : "the client did not ask for the definition of %s",
                t->base);
        template_refuse(l, id, &e);
    } else {
        (void)sys_pidfd_signal(t->pidfd, SIGKILL); /* template_died() answers */
    }
}

void box_expire(struct launcher *l, uint64_t now)
{
    uint64_t next = 0;

    for (size_t i = 0; i < BOXES_MAX; i++) {
        struct box_entry *box = &l->boxes[i];
        if (box->state == BOX_SPAWNING || box->state == BOX_ENDING) {
            next = earlier(next, expire_owed(l, box, now));
        } else if (box->state == BOX_LIVE) {
            next = earlier(next, expire_live(l, box, now));
        }
    }
    for (size_t i = 0; i < TEMPLATES_MAX; i++) {
        struct template *t = &l->templates[i];
        if (t->start_deadline != 0 && t->start_deadline <= now) {
            expire_start(l, (uint32_t)i);
        }
        next = earlier(next, t->start_deadline);
    }
    l->next_deadline = earlier(next, l->end_by);
}
