/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces zygotes by age and by number of boxes: an attacker that learns the address layout of
 * one box knows it for all boxes of its zygote.
 *
 * How it works: a second zygote of the same definition is started apart, with pools like those of
 * the first. When they are filled the two change places. The first makes no more boxes, and goes
 * with the last one that it made (templates_sweep()). Requests do not wait.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "service/service_impl.h"

#define FILL_MS 10000   /* pools that are not full by then are filled later */
#define FILL_LOOK_MS 50 /* how often that is looked at */

struct rotation {
    struct service *svc;
    struct live_template *old;
};

static void copy_pools(const struct live_template *from, struct live_template *to)
{
    for (const struct pool *p = from->pools; p != NULL; p = p->next) {
        struct pool *copy =
            p->adaptive ? pool_adaptive(to, p->mode, &p->limits, p->min, p->max) : NULL;
        if (copy != NULL) {
            copy->kept = p->kept;
            copy->floor = p->floor;
        }
    }
}

static bool is_filled(const struct live_template *t)
{
    for (const struct pool *p = t->pools; p != NULL; p = p->next) {
        if (p->stats.parked < p->min) {
            return false;
        }
    }
    return true;
}

static void await_filled(struct service *svc, const struct live_template *t)
{
    uint64_t until = clock_ms() + FILL_MS;

    fiber_wake(svc->engine->pool_keeper);
    while (!is_filled(t) && clock_ms() < until && !svc->closing && !svc->engine->lost) {
        fiber_sleep(FILL_LOOK_MS);
    }
}

static void replace(void *user)
{
    struct rotation r = *(struct rotation *)user;
    struct live_template *old = r.old;
    struct err e = {0};

    free(user);
    struct live_template *fresh = live_successor(r.svc->engine, old, &e);
    if (fresh != NULL) {
        fresh->users++; /* no request uses it yet, and templates_sweep() must keep it */
        copy_pools(old, fresh);
        if (live_start(r.svc->engine, fresh, NULL, 0, &e) == 0) {
            await_filled(r.svc, fresh);
        }
        fresh->users--;
        fresh->apart = false;
    }
    old->being_replaced = false;
    if (fresh != NULL && fresh->open && !fresh->retired) {
        old->retired = true;
        log_info("zygote_replaced", "template=%s boxes=%llu", old->name,
                 (unsigned long long)old->made);
    } else {
        if (fresh != NULL) {
            fresh->retired = true; /* swept */
        }
        old->opened_ms = clock_ms(); /* tried again after the same time */
        old->made = 0;
        log_warn("zygote_not_replaced", "template=%s: %s", old->name, e.msg);
    }
    old->users--;
}

static bool is_due(const struct config *c, const struct live_template *t)
{
    return t->open && !t->retired && !t->apart && !t->one_off && !t->being_replaced &&
           (clock_ms() - t->opened_ms >= c->zygote_max_age_ms || t->made >= c->zygote_max_boxes);
}

void zygotes_rotate(struct service *svc)
{
    for (struct live_template *t = svc->engine->templates; t != NULL; t = t->next) {
        struct rotation *r = is_due(svc->config, t) ? malloc(sizeof(*r)) : NULL;
        if (r == NULL) {
            continue;
        }
        *r = (struct rotation){.svc = svc, .old = t};
        t->being_replaced = true;
        t->users++;
        if (fiber_start(replace, r) < 0) { /* the next round tries again */
            t->being_replaced = false;
            t->users--;
            free(r);
        }
        return; /* one at a time: each takes as much as a start */
    }
}
