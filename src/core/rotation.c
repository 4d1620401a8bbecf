/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces zygotes by age and by number of boxes: an attacker that learns the address layout of
 * one box knows it for all boxes of its zygote. Likewise when the operator changes a definition.
 *
 * How it works: a second zygote of the same definition is started apart, with pools like those of
 * the first. When they are filled the two change places. The first makes no more boxes, and goes
 * with the last one that it made (engine_sweep_templates()). Requests do not wait.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "core/engine_impl.h"

#define LOOKS 4       /* files that are read in one round: each takes up to 0.1 ms */
#define FILL_MS 10000 /* pools that are not full by then are filled later */

struct rotation {
    struct engine *engine;
    struct live_template *old;
    struct zygote_policy policy;
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

static void await_filled(struct engine *engine, const struct live_template *t)
{
    uint64_t until = clock_ms() + FILL_MS;

    fiber_wake(engine->pool_keeper);
    while (!is_filled(t) && clock_ms() < until && !engine->closing && !engine->lost) {
        (void)fiber_queue_wait(&engine->parked, (int64_t)(until - MIN(clock_ms(), until)));
    }
}

static void replace(void *user)
{
    struct rotation r = *(struct rotation *)user;
    struct live_template *old = r.old;
    struct err e = {0};

    free(user);
    struct live_template *fresh = live_successor(r.engine, old, &e);
    if (fresh != NULL) {
        fresh->users++; /* no request uses it yet, and the sweep must keep it */
        copy_pools(old, fresh);
        if (live_start(r.engine, fresh, NULL, 0, &e) == 0) {
            await_filled(r.engine, fresh);
        }
        fresh->users--;
        fresh->apart = false;
    }
    old->being_replaced = false;
    if (fresh != NULL && fresh->open && !fresh->retired) {
        old->retired = true;
        r.policy.on_replaced(r.policy.user, old->name, old->made, NULL);
    } else {
        if (fresh != NULL) {
            old->refused = fresh->def.fingerprint;
            fresh->retired = true; /* swept */
        }
        old->opened_ms = clock_ms(); /* tried again after the same time */
        old->made = 0;
        r.policy.on_replaced(r.policy.user, old->name, 0, &e);
    }
    old->users--;
}

static bool is_in_use(const struct live_template *t)
{
    return t->open && !t->retired && !t->apart && !t->one_off && !t->being_replaced;
}

/* A file that cannot be used is reported once, and the zygote stays. */
static bool has_changed(const struct engine *engine, const struct zygote_policy *p,
                        struct live_template *t)
{
    AUTO_FREE struct template_def *def = malloc(sizeof(*def)); /* large, for a fiber's stack */
    struct err e = {0};

    if (def == NULL) {
        return false;
    }
    bool was_broken = t->file_broken;
    t->file_broken = template_find(&engine->dirs, t->name, def, &e) < 0;
    if (t->file_broken && !was_broken) {
        p->on_replaced(p->user, t->name, 0, &e);
    }
    return !t->file_broken && def->fingerprint != t->def.fingerprint &&
           def->fingerprint != t->refused;
}

static bool is_due(struct engine *engine, const struct zygote_policy *p, struct live_template *t,
                   bool looks)
{
    return is_in_use(t) && (clock_ms() - t->opened_ms >= p->max_age_ms || t->made >= p->max_boxes ||
                            (looks && has_changed(engine, p, t)));
}

static size_t count(const struct engine *engine)
{
    size_t n = 0;

    for (const struct live_template *t = engine->templates; t != NULL; t = t->next) {
        n++;
    }
    return n;
}

void engine_rotate_zygotes(struct engine *engine, const struct zygote_policy *policy)
{
    size_t n = count(engine);
    size_t i = 0;

    if (n == 0) {
        return;
    }
    engine->looked = (engine->looked + LOOKS) % n;
    for (struct live_template *t = engine->templates; t != NULL; t = t->next, i++) {
        bool due = is_due(engine, policy, t, (i + n - engine->looked) % n < LOOKS);
        struct rotation *r = due ? malloc(sizeof(*r)) : NULL;
        if (r == NULL) {
            continue;
        }
        *r = (struct rotation){.engine = engine, .old = t, .policy = *policy};
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
