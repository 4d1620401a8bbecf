/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How large the pools are: as large as the last minute's demand wanted, between min and max, and smaller again when nobody comes.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "service/impl.h"

/* Every box beyond the pool: as many as may run, and one per session. */
static uint32_t most_boxes(const struct config *c)
{
    uint64_t all = c->max_executions + c->max_sessions;

    return (uint32_t)MIN(all, (uint64_t)LAUNCHER_BOXES_MAX - 2 * c->pool_max - c->session_pool_max);
}

struct opening {
    struct service *svc;
    struct live_template *live;
};

/* Zygotes start in fibers of their own: the server answers meanwhile, only the first runs wait. */
static void open_template(void *user)
{
    struct opening *o = user;
    struct service *svc = o->svc;
    struct live_template *live = o->live;
    const struct config *c = svc->config;
    struct err e = {0};

    free(o);
    if (live_start(svc->engine, live, NULL, 0, &e) < 0) {
        log_error("template_broken", "template=%s: %s", live->name, e.msg);
        svc->ready = true; /* what needs it says so; everything else works */
        return;
    }
    if (pool_set(svc->engine, live, LAUNCHER_ONCE, NULL, (uint32_t)c->pool_min,
                 (uint32_t)c->pool_max, &e) < 0 ||
        (live->def.info.language == HUSK_PYTHON &&
         pool_set(svc->engine, live, LAUNCHER_SESSION, NULL, (uint32_t)c->session_pool_min,
                  (uint32_t)c->session_pool_max, &e) < 0)) {
        log_error("pool_failed", "template=%s: %s", live->name, e.msg);
    }
    svc->ready = true;
}

int pools_start(struct service *svc, struct err *e)
{
    const struct config *c = svc->config;

    svc->ready = c->templates_preload.n == 0;
    for (size_t i = 0; i < c->templates_preload.n; i++) {
        struct live_template *live =
            live_get(svc->engine, c->templates_preload.items[i], true, e);
        struct opening *o = live != NULL ? malloc(sizeof(*o)) : NULL;
        if (o == NULL) {
            return live != NULL ? err_set(e, ERR_SYSTEM, "out of memory") : -1;
        }
        *o = (struct opening){.svc = svc, .live = live};
        if (!live->open) {
            live->boxes_asked = most_boxes(c);
        }
        int r = fiber_start(open_template, o);
        if (r < 0) {
            free(o);
            return err_sys(e, -r, "start a fiber");
        }
    }
    return 0;
}

/* Demand is what was taken or missed in the last second; supply follows it up at once and down slowly. */
static void adjust(struct pool *pool, uint64_t floor, uint64_t idle_rounds)
{
    uint64_t taken = pool->stats.hits + pool->stats.misses;
    uint64_t demand = taken - pool->seen;

    pool->seen = taken;
    if (demand > pool->min) {
        pool->min = (uint32_t)MIN(demand, (uint64_t)pool->max);
        pool->quiet = 0;
    } else if (demand == 0 && pool->min > floor && ++pool->quiet >= idle_rounds) {
        pool->min = (uint32_t)MAX(floor, (uint64_t)pool->min / 2);
        pool->quiet = 0;
    }
}

void pools_adjust(struct service *svc)
{
    const struct config *c = svc->config;
    struct err e = {0};

    for (struct live_template *t = svc->engine->templates; t != NULL; t = t->next) {
        for (size_t i = 0; i < ARRAY_LEN(t->pools); i++) {
            struct pool *pool = &t->pools[i];
            uint64_t floor = i == LAUNCHER_ONCE ? c->pool_min : c->session_pool_min;
            if (!pool->on) {
                continue;
            }
            adjust(pool, floor, c->pool_idle_ms / 1000);
            pool_trim(svc->engine, pool);
        }
    }
    (void)e;
    fiber_wake(svc->engine->pool_keeper);
}

size_t service_pools(struct service *svc, struct service_pool *ret, size_t max)
{
    const struct config *c = svc->config;
    size_t n = 0;

    for (struct live_template *t = svc->engine->templates; t != NULL; t = t->next) {
        for (size_t i = 0; i < ARRAY_LEN(t->pools) && n < max; i++) {
            const struct pool *pool = &t->pools[i];
            if (!pool->on) {
                continue;
            }
            ret[n] = (struct service_pool){
                .persistent = i == LAUNCHER_SESSION,
                .min = (uint32_t)(i == LAUNCHER_ONCE ? c->pool_min : c->session_pool_min),
                .max = pool->max,
                .target = pool->min,
                .parked = pool->stats.parked,
                .starting = pool->stats.starting,
                .hits = pool->stats.hits,
                .misses = pool->stats.misses,
                .dead = pool->stats.dead,
            };
            (void)str_copy(ret[n].template_name, sizeof(ret[n].template_name), t->name);
            n++;
        }
    }
    return n;
}
