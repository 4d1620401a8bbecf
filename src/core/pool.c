/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool: boxes of a template that are isolated, warmed and waiting, each for one use.
 *
 * A parked box is owned by its template's list. A box that died while parked leaves it by its EXIT event, or is found out
 * when it is taken.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "core/engine.h"

#define WAIT_SLICE_MS 1000
#define RETRY_MS 1000
#define POOLS_MAX 8 /* of one template: limits that are asked for often enough to be worth one */
#define START_PATIENCE_MS 30000 /* longer than any set-up takes, shorter than a user's patience */

static bool list_remove(struct guest **list, struct guest *g)
{
    for (struct guest **p = list; *p != NULL; p = &(*p)->next) {
        if (*p == g) {
            *p = g->next;
            g->next = NULL;
            return true;
        }
    }
    return false;
}

static void list_push(struct guest **list, struct guest *g)
{
    g->next = *list;
    *list = g;
}

static bool same_limits(const struct limits *a, const struct limits *b)
{
    /* The deadline and the output bound are set per run, not built into the box. */
    return a->memory_bytes == b->memory_bytes && a->disk_bytes == b->disk_bytes &&
           a->cpu_milli == b->cpu_milli && a->pids == b->pids && a->inodes == b->inodes &&
           a->open_files == b->open_files;
}

/* The launcher's word that a box ended may still be on its way; the end of its control socket is there at once. */
static bool is_alive(const struct guest *g)
{
    char byte;

    return recv(g->control.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

static struct pool *find(const struct live_template *live, enum launcher_mode mode,
                         const struct limits *limits)
{
    for (struct pool *p = live->pools; p != NULL; p = p->next) {
        if (p->mode == mode && same_limits(&p->limits, limits)) {
            return p;
        }
    }
    return NULL;
}

static struct pool *find_fixed(const struct live_template *live, enum launcher_mode mode)
{
    for (struct pool *p = live->pools; p != NULL; p = p->next) {
        if (p->mode == mode && !p->adaptive) {
            return p;
        }
    }
    return NULL;
}

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
    struct pool *p = find(live, mode, limits);

    if (p == NULL && count(live) < POOLS_MAX && (p = add_pool(live, mode)) != NULL) {
        p->adaptive = true;
        p->limits = *limits;
        p->min = min;
        p->max = max;
    }
    return p;
}

void pool_remove(struct husk_engine *engine, struct live_template *live, struct pool *pool)
{
    for (struct pool **p = &live->pools; *p != NULL; p = &(*p)->next) {
        if (*p == pool) {
            *p = pool->next;
            pool_clear(engine, pool);
            free(pool);
            return;
        }
    }
}

uint32_t pool_most(const struct live_template *live)
{
    uint32_t most = 0;

    for (const struct pool *p = live->pools; p != NULL; p = p->next) {
        most += p->mode == LAUNCHER_ONCE ? 2 * p->max : p->max;
    }
    return most;
}

struct guest *pool_take(struct husk_engine *engine, struct live_template *live,
                        enum launcher_mode mode, const struct limits *limits)
{
    struct pool *pool = find(live, mode, limits);

    if (pool == NULL && engine->adaptive_max > 0 && !live->one_off) {
        pool = pool_adaptive(live, mode, limits, 0, engine->adaptive_max);
    }
    if (pool == NULL) { /* another size than the pool's is a miss of the pool */
        pool = find_fixed(live, mode);
        if (pool != NULL) {
            pool->stats.misses++;
        }
        return NULL;
    }
    while (pool->parked != NULL) {
        struct guest *g = pool->parked;
        pool->parked = g->next;
        g->next = NULL;
        g->pool = NULL;
        g->in_pool = false;
        pool->stats.parked--;
        if (is_alive(g)) {
            g->limits = *limits;
            pool->stats.hits++;
            return g;
        }
        pool->stats.dead++;
        guest_free(engine, g);
    }
    pool->stats.misses++;
    return NULL;
}

int pool_refill(struct husk_engine *engine, struct live_template *live, struct pool *pool,
                struct err *e)
{
    struct guest_options options = {.limits = pool->limits,
                                    .mode = pool->mode,
                                    .warm = pool->mode == LAUNCHER_ONCE,
                                    .pool = pool};

    if (engine_dispatch(engine, e) < 0) {
        return -1;
    }
    while (pool->stats.parked + pool->stats.starting < pool->min) {
        pool->stats.starting++; /* at once: others may look while we wait for the launcher */
        struct guest *g = guest_start(engine, live, &options, e);
        if (g == NULL) {
            pool->stats.starting--;
            return -1;
        }
        if (g->exited) { /* it ended while we waited */
            pool->stats.starting--;
            pool->stats.dead++;
            guest_free(engine, g);
            continue;
        }
        list_push(&pool->starting, g);
        g->in_pool = true;
        if (g->state != GUEST_STARTING) {
            pool_serve(
                engine); /* it was ready before we heard of its birth: no event will follow */
        }
    }
    return 0;
}

void pool_taken(struct husk_engine *engine, struct live_template *live)
{
    struct err later = {0};

    if (engine->pool_keeper != NULL) {
        fiber_wake(engine->pool_keeper);
        return;
    }
    for (struct pool *p = live->pools; p != NULL; p = p->next) {
        /* A refill that fails shows when the next box is asked for. */
        (void)pool_refill(engine, live, p, &later);
    }
}

static void settle(struct husk_engine *engine, struct pool *pool, struct guest *g)
{
    (void)list_remove(&pool->starting, g);
    pool->stats.starting--;
    if (g->state == GUEST_READY && pool->stats.parked < pool->max) {
        /* Its next word would come only after a RUN: no need to watch it. */
        guest_unwatch(engine, g);
        list_push(&pool->parked, g);
        pool->stats.parked++;
    } else {
        pool->stats.dead += g->state == GUEST_BROKEN;
        guest_free(engine, g);
    }
}

static void serve(struct husk_engine *engine, struct pool *pool)
{
    struct guest *next;

    for (struct guest *g = pool->starting; g != NULL; g = next) {
        next = g->next;
        if (g->state != GUEST_STARTING) {
            settle(engine, pool, g);
        }
    }
}

void pool_serve(struct husk_engine *engine)
{
    for (struct live_template *t = engine->templates; t != NULL; t = t->next) {
        for (struct pool *p = t->pools; p != NULL; p = p->next) {
            serve(engine, p);
        }
    }
}

void pool_lost(struct husk_engine *engine, struct guest *g)
{
    struct pool *pool = g->pool;

    if (pool == NULL || !g->in_pool) {
        return; /* somebody is using it, and will see that it exited */
    }
    if (list_remove(&pool->parked, g)) {
        pool->stats.parked--;
    } else if (list_remove(&pool->starting, g)) {
        pool->stats.starting--;
    }
    pool->stats.dead++;
    pool->refusal = g->refusal;
    guest_free(engine, g);
    fiber_wake(engine->pool_keeper);
}

void pool_clear(struct husk_engine *engine, struct pool *pool)
{
    struct guest **lists[] = {&pool->parked, &pool->starting};

    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        while (*lists[i] != NULL) {
            struct guest *g = *lists[i];
            *lists[i] = g->next;
            guest_free(engine, g);
        }
    }
    pool->stats.parked = 0;
    pool->stats.starting = 0;
}

/* A zygote is started for so many boxes and no more: a larger pool needs another one. */
static int make_room(struct husk_engine *engine, struct live_template *live, struct err *e)
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

static void drop_beyond(struct husk_engine *engine, struct pool *pool, uint32_t keep)
{
    while (pool->stats.parked > keep) {
        struct guest *g = pool->parked;
        pool->parked = g->next;
        pool->stats.parked--;
        guest_free(engine, g);
    }
}

void pool_trim(struct husk_engine *engine, struct pool *pool)
{
    drop_beyond(engine, pool, pool->min);
}

int pool_set(struct husk_engine *engine, struct live_template *live, enum launcher_mode mode,
             const struct husk_limits *limits, uint32_t min, uint32_t max, struct err *e)
{
    static const struct husk_limits none;
    struct limits want;

    if (max < min || max > 1000) {
        return err_set(e, ERR_INVALID, "a pool's max must be between its min and 1000");
    }
    if (engine_limits(limits != NULL ? limits : &none, &live->def.info.limits, &want, e) < 0) {
        return -1;
    }
    struct pool *pool = find_fixed(live, mode);
    if (pool == NULL && (pool = add_pool(live, mode)) == NULL) {
        return err_sys(e, ENOMEM, "pool");
    }
    if (!same_limits(&want, &pool->limits)) {
        pool_clear(engine, pool);
    }
    if (live->open && live->boxes_asked == 0 && max > pool->max && make_room(engine, live, e) < 0) {
        return -1;
    }
    pool->limits = want;
    pool->min = min;
    pool->max = max;
    drop_beyond(engine, pool, max);
    if (engine->pool_keeper != NULL) {
        fiber_wake(engine->pool_keeper);
        return 0;
    }
    return pool_refill(engine, live, pool, e);
}

/* One that is below its size, and whose template is not just failing. NULL: all are full. */
static struct pool *find_wanting(const struct husk_engine *engine, struct live_template **ret_live)
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
    struct husk_engine *engine = user;
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

int pool_keep(struct husk_engine *engine, struct err *e)
{
    int r = fiber_start(keep_pools, engine);

    return r < 0 ? err_sys(e, -r, "start a fiber") : 0;
}

int husk_pool_set(struct husk_engine *engine, const char *template_name,
                  const struct husk_limits *limits, uint32_t min, uint32_t max,
                  struct husk_error *error)
{
    struct err e = {0};

    struct live_template *live = live_get(engine, template_name, true, &e);
    if (live == NULL || pool_set(engine, live, LAUNCHER_ONCE, limits, min, max, &e) < 0) {
        engine_error_export(&e, error);
        return -1;
    }
    return 0;
}

int husk_pool_wait(struct husk_engine *engine, const char *template_name, uint32_t parked,
                   struct husk_error *error)
{
    struct err e = {0};
    uint64_t deadline = clock_ms() + START_PATIENCE_MS;

    struct live_template *live = live_get(engine, template_name, true, &e);
    struct pool *pool = live != NULL ? find_fixed(live, LAUNCHER_ONCE) : NULL;
    if (pool != NULL) {
        pool->refusal.code = ERR_NONE;
    }
    while (pool != NULL && pool->stats.parked < parked) {
        if (pool_refill(engine, live, pool, &e) < 0 || engine_wait(engine, WAIT_SLICE_MS, &e) < 0) {
            break;
        }
        if (pool->refusal.code != ERR_NONE) {
            e = pool->refusal;
            break;
        }
        if (clock_ms() > deadline) {
            err_set(&e, ERR_TIMEOUT, "only %u of %u boxes were ready in time", pool->stats.parked,
                    parked);
            break;
        }
    }
    if (e.code != ERR_NONE) {
        engine_error_export(&e, error);
        return -1;
    }
    return 0;
}

int husk_pool_stats(struct husk_engine *engine, const char *template_name,
                    struct husk_pool_stats *ret, struct husk_error *error)
{
    struct err e = {0};

    struct live_template *live = live_get(engine, template_name, true, &e);
    if (live == NULL) {
        engine_error_export(&e, error);
        return -1;
    }
    const struct pool *pool = find_fixed(live, LAUNCHER_ONCE);
    *ret = pool != NULL ? pool->stats : (struct husk_pool_stats){0};
    return 0;
}
