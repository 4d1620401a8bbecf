/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many boxes a template keeps ready, and the fiber that makes them; pool.c has how they come
 * and go.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "core/pool_impl.h"

#define WAIT_SLICE_MS 1000
#define RETRY_MS 1000
#define START_PATIENCE_MS 30000 /* longer than any set-up takes, shorter than a user's patience */
#define POOLS_MAX 8 /* of one template: limits that are asked for often enough to be worth one */

static struct pool *add_pool(struct live_template *live, enum launcher_mode mode)
{
    struct pool *p = calloc(1, sizeof(*p));

    if (p != NULL) {
        p->mode = mode;
        p->next = live->pools;
        live->pools = p;
    }
    return p;
}

static size_t count(const struct live_template *live)
{
    size_t n = 0;

    for (const struct pool *p = live->pools; p != NULL; p = p->next) {
        n++;
    }
    return n;
}

struct pool *pool_adaptive(struct live_template *live, enum launcher_mode mode,
                           const struct limits *limits, uint32_t min, uint32_t max)
{
    struct pool *p = pool_find(live, mode, limits);

    if (p == NULL && count(live) < POOLS_MAX && (p = add_pool(live, mode)) != NULL) {
        p->adaptive = true;
        p->limits = *limits;
        p->min = min;
        p->max = max;
    }
    return p;
}

uint32_t pool_most(const struct live_template *live)
{
    uint32_t most = 0;

    for (const struct pool *p = live->pools; p != NULL; p = p->next) {
        most += p->mode == LAUNCHER_ONCE ? 2 * p->max : p->max;
    }
    return most;
}

/* A zygote is started for so many boxes and no more: a larger pool needs another one. */
static int make_room(struct engine *engine, struct live_template *live, struct err *e)
{
    for (struct pool *p = live->pools; p != NULL; p = p->next) {
        pool_clear(engine, p);
    }
    for (size_t i = 0; i < ENGINE_BOXES_MAX; i++) {
        if (engine->guests[i] != NULL && engine->guests[i]->live == live) {
            return err_set(e, ERR_LIMIT,
                           "the pool of %s cannot grow while a session uses the template",
                           live->name);
        }
    }
    return live_stop(engine, live, e);
}

static void drop_beyond(struct engine *engine, struct pool *pool, uint32_t keep)
{
    while (pool->stats.parked > keep) {
        guest_free(engine, pool_pop(pool, false));
    }
}

void pool_trim(struct engine *engine, struct pool *pool)
{
    drop_beyond(engine, pool, pool->min);
}

/* The fixed pool, made if there is none; NULL and *e without memory. */
static struct pool *get_fixed(struct live_template *live, struct err *e)
{
    struct pool *pool = pool_find_fixed(live, LAUNCHER_ONCE);

    if (pool == NULL && (pool = add_pool(live, LAUNCHER_ONCE)) == NULL) {
        err_sys(e, ENOMEM, "pool");
    }
    return pool;
}

/* The template's fixed pool, of boxes for one-shot runs. */
static int pool_set(struct engine *engine, struct live_template *live,
                    const struct husk_limits *limits, uint32_t min, uint32_t max, struct err *e)
{
    static const struct husk_limits none;
    const struct husk_limits *asked = limits != NULL ? limits : &none;
    struct limits want;

    if (max < min || max > 1000) {
        return err_set(e, ERR_INVALID, "a pool's max must be between its min and 1000");
    }
    struct pool *pool = get_fixed(live, e);
    if (pool == NULL || engine_limits(asked, &live->def.info.limits, &want, e) < 0) {
        return -1;
    }
    if (!pool_same_limits(&want, &pool->limits)) {
        pool_clear(engine, pool);
    }
    uint32_t max_before = pool->max;
    pool->max = max;
    if (live->open && live->boxes_asked == 0 && live_boxes(live) > live->boxes_most &&
        make_room(engine, live, e) < 0) {
        pool->max = max_before;
        return -1;
    }
    pool->limits = want;
    pool->was_full = pool->was_full && min <= pool->min;
    pool->min = min;
    drop_beyond(engine, pool, max);
    fiber_wake(engine->pool_keeper);
    return engine->pool_keeper != NULL ? 0 : pool_refill(engine, live, pool, e);
}

/* One that is below its size, and whose template is not just failing. NULL: all are full. */
static struct pool *find_wanting(const struct engine *engine, struct live_template **ret_live)
{
    for (struct live_template *t = engine->templates; t != NULL; t = t->next) {
        for (struct pool *p = t->pools; p != NULL; p = p->next) {
            if (p->stats.parked + p->stats.starting < p->min && p->retry_ms <= clock_ms()) {
                *ret_live = t;
                return p;
            }
        }
    }
    return NULL;
}

static void keep_pools(void *user)
{
    struct engine *engine = user;
    struct live_template *live;

    engine->pool_keeper = fiber_self();
    while (!engine->closing && !engine->lost) {
        struct pool *pool = find_wanting(engine, &live);
        struct err e = {0};
        if (pool == NULL) {
            (void)fiber_poll(NULL, 0, RETRY_MS);
            continue;
        }
        pool->busy = true; /* we wait in there: it must not go away */
        if (pool_refill(engine, live, pool, &e) < 0) {
            /* Tried again after a while, not at once: a broken template must not keep us busy. */
            pool->retry_ms = clock_ms() + RETRY_MS;
        }
        pool->busy = false;
    }
    engine->pool_keeper = NULL;
}

int pool_keep(struct engine *engine, struct err *e)
{
    int r = fiber_start(keep_pools, engine);

    return r < 0 ? err_sys(e, -r, "start a fiber") : 0;
}

int engine_pool_set(struct engine *engine, const char *template_name,
                    const struct husk_limits *limits, uint32_t min, uint32_t max, struct err *e)
{
    struct live_template *live = live_get(engine, template_name, true, e);

    return live == NULL ? -1 : pool_set(engine, live, limits, min, max, e);
}

int engine_pool_wait(struct engine *engine, const char *template_name, uint32_t parked,
                     struct err *e)
{
    uint64_t deadline = clock_ms() + START_PATIENCE_MS;

    struct live_template *live = live_get(engine, template_name, true, e);
    if (live == NULL) {
        return -1;
    }
    struct pool *pool = pool_find_fixed(live, LAUNCHER_ONCE);
    if (pool != NULL) {
        pool->refusal.code = ERR_NONE;
    }
    while (pool != NULL && pool->stats.parked < parked) {
        if (pool_refill(engine, live, pool, e) < 0 || engine_wait(engine, WAIT_SLICE_MS, e) < 0) {
            return -1;
        }
        if (pool->refusal.code != ERR_NONE) {
            *e = pool->refusal;
            return -1;
        }
        if (clock_ms() > deadline) {
            return err_set(e, ERR_TIMEOUT, "only %u of %u boxes were ready in time",
                           pool->stats.parked, parked);
        }
    }
    return 0;
}

int engine_pool_stats(struct engine *engine, const char *template_name, struct husk_pool_stats *ret,
                      struct err *e)
{
    struct live_template *live = live_get(engine, template_name, true, e);

    if (live == NULL) {
        return -1;
    }
    const struct pool *pool = pool_find_fixed(live, LAUNCHER_ONCE);
    *ret = pool != NULL ? pool->stats : (struct husk_pool_stats){0};
    for (const struct guest *g = pool != NULL ? pool->parked : NULL; g != NULL; g = g->next) {
        ret->warm++;
    }
    return 0;
}
