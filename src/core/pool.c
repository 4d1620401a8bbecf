/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool: boxes of a template that are isolated, warmed and waiting, each for one use.
 *
 * A parked box is owned by its template's list. A box that died while parked leaves it by its EXIT event, or is found out
 * when it is taken.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "core/engine.h"

#define WAIT_SLICE_MS 1000
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

struct guest *pool_take(struct husk_engine *engine, struct live_template *live,
                        const struct limits *limits)
{
    while (live->parked != NULL && same_limits(&live->pool_limits, limits)) {
        struct guest *g = live->parked;
        live->parked = g->next;
        g->next = NULL;
        live->stats.parked--;
        if (is_alive(g)) {
            g->limits = *limits;
            live->stats.hits++;
            return g;
        }
        live->stats.dead++;
        guest_free(engine, g);
    }
    live->stats.misses += live->pooled;
    return NULL;
}

int pool_refill(struct husk_engine *engine, struct live_template *live, struct err *e)
{
    struct guest_options options = {
        .limits = live->pool_limits, .mode = LAUNCHER_ONCE, .warm = true};

    if (engine_dispatch(engine, e) < 0) {
        return -1;
    }
    while (live->stats.parked + live->stats.starting < live->pool_min) {
        struct guest *g = guest_start(engine, live, &options, e);
        if (g == NULL) {
            return -1;
        }
        list_push(&live->starting, g);
        live->stats.starting++;
    }
    return 0;
}

static void settle(struct husk_engine *engine, struct live_template *live, struct guest *g)
{
    (void)list_remove(&live->starting, g);
    live->stats.starting--;
    if (g->state == GUEST_READY && live->stats.parked < live->pool_max) {
        /* Its next word would come only after a RUN: no need to watch it. */
        guest_unwatch(engine, g);
        list_push(&live->parked, g);
        live->stats.parked++;
    } else {
        live->stats.dead += g->state == GUEST_BROKEN;
        guest_free(engine, g);
    }
}

void pool_serve(struct husk_engine *engine)
{
    for (struct live_template *t = engine->templates; t != NULL; t = t->next) {
        struct guest *next;
        for (struct guest *g = t->starting; g != NULL; g = next) {
            next = g->next;
            if (g->state != GUEST_STARTING) {
                settle(engine, t, g);
            }
        }
    }
}

void pool_lost(struct husk_engine *engine, struct guest *g)
{
    struct live_template *live = g->live;

    if (list_remove(&live->parked, g)) {
        live->stats.parked--;
    } else if (list_remove(&live->starting, g)) {
        live->stats.starting--;
    } else {
        return; /* somebody is using it, and will see that it exited */
    }
    live->stats.dead++;
    guest_free(engine, g);
}

void pool_clear(struct husk_engine *engine, struct live_template *live)
{
    struct guest **lists[] = {&live->parked, &live->starting};

    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        while (*lists[i] != NULL) {
            struct guest *g = *lists[i];
            *lists[i] = g->next;
            guest_free(engine, g);
        }
    }
    live->stats.parked = 0;
    live->stats.starting = 0;
}

/* A zygote is started for so many boxes and no more: a larger pool needs another one. */
static int make_room(struct husk_engine *engine, struct live_template *live, struct err *e)
{
    pool_clear(engine, live);
    for (size_t i = 0; i < ENGINE_BOXES_MAX; i++) {
        if (engine->guests[i] != NULL && engine->guests[i]->live == live) {
            return err_set(e, ERR_LIMIT,
                           "the pool of %s cannot grow while a session uses the template",
                           live->name);
        }
    }
    return live_stop(engine, live, e);
}

static int set_pool(struct husk_engine *engine, const char *name, const struct husk_limits *limits,
                    uint32_t min, uint32_t max, struct err *e)
{
    static const struct husk_limits none;
    struct limits want;

    struct live_template *live = live_get(engine, name, true, e);
    if (live == NULL) {
        return -1;
    }
    if (max < min || max > 1000) {
        return err_set(e, ERR_INVALID, "a pool's max must be between its min and 1000");
    }
    if (engine_limits(limits != NULL ? limits : &none, &live->def.info.limits, &want, e) < 0) {
        return -1;
    }
    if (!same_limits(&want, &live->pool_limits)) {
        pool_clear(engine, live);
    }
    if (live->open && max > live->pool_max && make_room(engine, live, e) < 0) {
        return -1;
    }
    live->pooled = true;
    live->pool_limits = want;
    live->pool_min = min;
    live->pool_max = max;
    while (live->stats.parked > max) {
        struct guest *g = live->parked;
        live->parked = g->next;
        live->stats.parked--;
        guest_free(engine, g);
    }
    return pool_refill(engine, live, e);
}

int husk_pool_set(struct husk_engine *engine, const char *template_name,
                  const struct husk_limits *limits, uint32_t min, uint32_t max,
                  struct husk_error *error)
{
    struct err e = {0};

    if (set_pool(engine, template_name, limits, min, max, &e) < 0) {
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
    while (live != NULL && live->stats.parked < parked) {
        if (pool_refill(engine, live, &e) < 0 || engine_wait(engine, WAIT_SLICE_MS, &e) < 0) {
            break;
        }
        if (live->stats.dead > 0 && engine->refusal.code != ERR_NONE) {
            e = engine->refusal;
            break;
        }
        if (clock_ms() > deadline) {
            err_set(&e, ERR_TIMEOUT, "only %u of %u boxes were ready in time", live->stats.parked,
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
    *ret = live->stats;
    return 0;
}
