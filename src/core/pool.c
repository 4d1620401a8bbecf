/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool: boxes of a template that are isolated and waiting, each for one use.
 *
 * Some are warm: the warm-up has run in them, and they have their own copy of the memory that a
 * run needs. They are taken first, and replaced at once. What a large pool has beyond them is
 * cool: a reserve for bursts, a third smaller, that takes twice as long to answer.
 *
 * A parked box is owned by its template's list. A box that died while parked leaves it by its EXIT
 * event, or is found out when it is taken.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "core/pool_impl.h"

#define POOL_WARM 24
#define POOL_HURRY 2 /* as many are being made already */

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

bool pool_same_limits(const struct limits *a, const struct limits *b)
{
    /* The deadline and the output bound are set per run, not built into the box. */
    return a->memory_bytes == b->memory_bytes && a->disk_bytes == b->disk_bytes &&
           a->process_bytes == b->process_bytes && a->cpu_milli == b->cpu_milli &&
           a->pids == b->pids && a->inodes == b->inodes && a->open_files == b->open_files;
}

/*
 * The launcher's word that a box ended may still be on its way; the end of its control socket is
 * there at once.
 */
static bool is_alive(const struct guest *g)
{
    char byte;

    return recv(g->control.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

struct pool *pool_find(const struct live_template *live, enum launcher_mode mode,
                       const struct limits *limits)
{
    for (struct pool *p = live->pools; p != NULL; p = p->next) {
        if (p->mode == mode && pool_same_limits(&p->limits, limits)) {
            return p;
        }
    }
    return NULL;
}

struct pool *pool_find_fixed(const struct live_template *live, enum launcher_mode mode)
{
    for (struct pool *p = live->pools; p != NULL; p = p->next) {
        if (p->mode == mode && !p->adaptive) {
            return p;
        }
    }
    return NULL;
}

void pool_remove(struct engine *engine, struct live_template *live, struct pool *pool)
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

struct guest *pool_pop(struct pool *pool, bool warm_first)
{
    struct guest **one = warm_first ? &pool->parked : &pool->cool;
    struct guest **other = warm_first ? &pool->cool : &pool->parked;
    struct guest **list = *one != NULL ? one : other;
    struct guest *g = *list;

    if (g != NULL) {
        *list = g->next;
        g->next = NULL;
        pool->stats.parked--;
        pool->warm -= !g->cool;
    }
    return g;
}

struct guest *pool_take(struct engine *engine, struct live_template *live, enum launcher_mode mode,
                        const struct limits *limits)
{
    struct pool *pool = pool_find(live, mode, limits);

    if (pool == NULL && engine->adaptive_max > 0 && !live->one_off) {
        pool = pool_adaptive(live, mode, limits, 0, engine->adaptive_max);
    }
    if (pool == NULL) { /* another size than the pool's is a miss of the pool */
        pool = pool_find_fixed(live, mode);
        if (pool != NULL) {
            pool->stats.misses++;
        }
        return NULL;
    }
    struct guest *g;
    while ((g = pool_pop(pool, true)) != NULL) {
        g->pool = NULL;
        g->in_pool = false;
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

/*
 * Boxes are taken faster than they are made: a warm-up would take more time from all of them than
 * it saves the one run that gets this box. Not so while a pool is filled for the first time.
 */
static bool is_in_a_hurry(const struct pool *pool)
{
    return pool->was_full && pool->stats.starting >= POOL_HURRY;
}

/* Only Python's boxes can do without their warm-up; those of sessions have none. */
static enum launcher_warmth warmth_of(const struct live_template *live, const struct pool *pool)
{
    if (pool->mode != LAUNCHER_ONCE) {
        return LAUNCHER_FRESH;
    }
    if (live->def.info.language != HUSK_PYTHON) {
        return LAUNCHER_WARM;
    }
    if (pool->warm >= POOL_WARM) {
        return LAUNCHER_COOL;
    }
    return is_in_a_hurry(pool) ? LAUNCHER_FRESH : LAUNCHER_WARM;
}

static void add_starting(struct pool *pool, struct guest *g)
{
    list_push(&pool->starting, g);
    g->in_pool = true;
    pool->warm += !g->cool;
}

/* One more. 0 also if it has ended already. */
static int start_next(struct engine *engine, struct live_template *live, struct pool *pool,
                      struct err *e)
{
    struct guest_options options = {
        .limits = pool->limits, .mode = pool->mode, .warmth = warmth_of(live, pool), .pool = pool};

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
        return 0;
    }
    add_starting(pool, g);
    if (g->state != GUEST_STARTING) {
        pool_serve(engine); /* it was ready before we heard of its birth: no event will follow */
    }
    return 0;
}

int pool_refill(struct engine *engine, struct live_template *live, struct pool *pool, struct err *e)
{
    if (engine_dispatch(engine, e) < 0) {
        return -1;
    }
    while (pool->stats.parked + pool->stats.starting < pool->min) {
        if (start_next(engine, live, pool, e) < 0) {
            return -1;
        }
    }
    return 0;
}

void pool_taken(struct engine *engine, struct live_template *live)
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

static void park_or_drop(struct engine *engine, struct pool *pool, struct guest *g)
{
    (void)list_remove(&pool->starting, g);
    pool->stats.starting--;
    if (g->state == GUEST_READY && pool->stats.parked < pool->max) {
        /* Its next word would come only after a RUN: no need to watch it. */
        guest_unwatch(engine, g);
        list_push(g->cool ? &pool->cool : &pool->parked, g);
        pool->stats.parked++;
        pool->was_full = pool->was_full || pool->stats.parked >= pool->min;
        fiber_queue_wake_all(&engine->parked);
    } else {
        pool->warm -= !g->cool;
        pool->stats.dead += g->state == GUEST_BROKEN;
        engine->births_failed += g->state == GUEST_BROKEN;
        guest_free(engine, g);
    }
}

static void serve(struct engine *engine, struct pool *pool)
{
    struct guest *next;

    for (struct guest *g = pool->starting; g != NULL; g = next) {
        next = g->next;
        if (g->state != GUEST_STARTING) {
            park_or_drop(engine, pool, g);
        }
    }
}

void pool_serve(struct engine *engine)
{
    for (struct live_template *t = engine->templates; t != NULL; t = t->next) {
        for (struct pool *p = t->pools; p != NULL; p = p->next) {
            serve(engine, p);
        }
    }
}

void pool_lost(struct engine *engine, struct guest *g)
{
    struct pool *pool = g->pool;

    if (pool == NULL || !g->in_pool) {
        return; /* it is in use, and its user will see that it exited */
    }
    if (list_remove(&pool->parked, g) || list_remove(&pool->cool, g)) {
        pool->stats.parked--;
    } else if (list_remove(&pool->starting, g)) {
        pool->stats.starting--;
    }
    pool->warm -= !g->cool;
    pool->stats.dead++;
    engine->births_failed += g->state != GUEST_READY;
    pool->refusal = g->refusal;
    guest_free(engine, g);
    fiber_wake(engine->pool_keeper);
}

void pool_clear(struct engine *engine, struct pool *pool)
{
    struct guest **lists[] = {&pool->parked, &pool->cool, &pool->starting};

    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        while (*lists[i] != NULL) {
            struct guest *g = *lists[i];
            *lists[i] = g->next;
            guest_free(engine, g);
        }
    }
    pool->stats.parked = 0;
    pool->stats.starting = 0;
    pool->warm = 0;
    pool->was_full = false;
}
