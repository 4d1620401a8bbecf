/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How large the pools are: as large as the last second's demand wanted, between min and max, and
 * smaller again when nobody comes.
 *
 * Every size of box that is asked for gets a pool of its own (core/pool.c) once it was missed;
 * those that nobody asks for any more go.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "service/service_impl.h"

/* Every box beyond the pool: as many as may run, and one per session. */
static uint32_t most_boxes(const struct config *c)
{
    uint64_t all = c->max_executions + c->max_sessions;

    return (uint32_t)MIN(all, (uint64_t)LAUNCHER_BOXES_MAX / 2);
}

struct opening {
    struct service *svc;
    struct live_template *live;
    struct husk_limits limits; /* of a pool for one-shot runs */
    uint64_t min;              /* of that pool */
    bool sessions;             /* and one for sessions */
};

static void add_pool(const struct opening *o, enum launcher_mode mode, uint64_t min, uint64_t max)
{
    struct limits limits;
    struct err e = {0};

    struct husk_limits asked = service_limits(o->svc, o->live->name, &o->limits);
    if (engine_limits(&asked, &o->live->def.info.limits, &limits, &e) < 0) {
        log_error("pool_failed", "template=%s: %s", o->live->name, e.msg);
        return;
    }
    struct pool *pool =
        pool_adaptive(o->live, mode, &limits, (uint32_t)min, (uint32_t)MAX(min, max));
    if (pool != NULL) {
        pool->kept = true;
        pool->floor = (uint32_t)min;
        pool->max = (uint32_t)MAX(min, max);
        pool->min = MIN(MAX(pool->min, pool->floor), pool->max);
    }
}

/* Zygotes start in fibers of their own: the server answers meanwhile, only the first runs wait. */
static void open_template(void *user)
{
    struct opening o = *(struct opening *)user;
    const struct config *c = o.svc->config;
    struct err e = {0};

    free(user);
    if (live_start(o.svc->engine, o.live, NULL, 0, &e) < 0) {
        log_error("template_broken", "template=%s: %s", o.live->name, e.msg);
    } else {
        add_pool(&o, LAUNCHER_ONCE, o.min, c->pool_max);
        if (o.sessions && o.live->def.info.language == HUSK_PYTHON) {
            add_pool(&o, LAUNCHER_SESSION, c->session_pool_min, c->session_pool_max);
        }
        fiber_wake(o.svc->engine->pool_keeper);
    }
    o.svc->ready = true; /* also if not: what needs the template says so, everything else works */
}

static int open_in_fiber(struct service *svc, const char *name, const struct husk_limits *limits,
                         uint64_t min, bool sessions, struct err *e)
{
    struct live_template *live = live_get(svc->engine, name, true, e);
    struct opening *o = live != NULL ? calloc(1, sizeof(*o)) : NULL;

    if (o == NULL) {
        return live != NULL ? err_set(e, ERR_SYSTEM, "out of memory") : -1;
    }
    *o = (struct opening){.svc = svc, .live = live, .min = min, .sessions = sessions};
    if (limits != NULL) {
        o->limits = *limits;
    }
    if (!live->open && !live->starting_up) {
        live->boxes_asked = most_boxes(svc->config);
    }
    int r = fiber_start(open_template, o);
    if (r < 0) {
        free(o);
        return err_sys(e, -r, "start a fiber");
    }
    return 0;
}

static int open_preloaded(struct service *svc, struct err *e)
{
    const struct config *c = svc->config;

    svc->engine->adaptive_max = (uint32_t)c->pool_max;
    for (size_t i = 0; i < c->templates_preload.n; i++) {
        if (open_in_fiber(svc, c->templates_preload.items[i], NULL, c->pool_min, true, e) < 0) {
            return -1;
        }
    }
    return 0;
}

int pools_start(struct service *svc, struct err *e)
{
    svc->ready = svc->config->templates_preload.n == 0;
    return open_preloaded(svc, e);
}

void pools_reconfigure(struct service *svc)
{
    uint32_t max = (uint32_t)svc->config->pool_max;
    struct err e = {0};

    /*
     * Those that are still wanted are asked for again, perhaps in another size; the others go when
     * nobody comes.
     */
    for (struct live_template *t = svc->engine->templates; t != NULL; t = t->next) {
        for (struct pool *pool = t->pools; pool != NULL; pool = pool->next) {
            pool->kept = false;
            pool->floor = 0;
            pool->max = max;
            pool->min = MIN(pool->min, max);
        }
    }
    if (open_preloaded(svc, &e) < 0) {
        log_warn("pool_failed", "%s", e.msg);
    }
}

void service_warm(struct service *svc, const char *template_name, const struct husk_limits *limits,
                  uint64_t min)
{
    struct err e = {0};

    if (min > 0 && open_in_fiber(svc, template_name, limits, min, false, &e) < 0) {
        log_warn("pool_failed", "template=%s: %s", template_name, e.msg);
    }
}

/*
 * Demand is what was taken or missed in the last second; supply follows it up at once and down
 * slowly.
 */
static void adjust(struct pool *pool, uint64_t floor, uint64_t idle_rounds)
{
    uint64_t taken = pool->stats.hits + pool->stats.misses;
    uint64_t demand = taken - pool->seen;

    pool->seen = taken;
    if (demand > 0) {
        pool->quiet = 0;
        pool->min = (uint32_t)MIN(MAX((uint64_t)pool->min, demand), (uint64_t)pool->max);
    } else if (pool->min > floor && ++pool->quiet >= idle_rounds) {
        pool->quiet = 0;
        pool->min = (uint32_t)MAX(floor, (uint64_t)pool->min / 2);
    }
}

void pools_adjust(struct service *svc)
{
    const struct config *c = svc->config;

    for (struct live_template *t = svc->engine->templates; t != NULL; t = t->next) {
        struct pool *next;
        for (struct pool *pool = t->pools; pool != NULL; pool = next) {
            next = pool->next;
            if (t->retired) {
                pool->kept = false;
                pool->floor = 0;
                pool->min = 0;
            }
            adjust(pool, pool->floor, MAX(c->pool_idle_ms / 1000, (uint64_t)1));
            pool_trim(svc->engine, pool);
            if (!pool->kept && pool->min == 0 && pool->stats.starting == 0 && !pool->busy &&
                ++pool->quiet > c->pool_idle_ms / 1000) {
                pool_remove(svc->engine, t, pool);
            }
        }
    }
    fiber_wake(svc->engine->pool_keeper);
}

size_t service_pools(struct service *svc, struct service_pool *ret, size_t max)
{
    size_t n = 0;

    for (struct live_template *t = svc->engine->templates; t != NULL; t = t->next) {
        for (const struct pool *pool = t->pools; pool != NULL && n < max; pool = pool->next) {
            ret[n] = (struct service_pool){
                .persistent = pool->mode == LAUNCHER_SESSION,
                .min = pool->floor,
                .max = pool->max,
                .target = pool->min,
                .parked = pool->stats.parked,
                .starting = pool->stats.starting,
                .hits = pool->stats.hits,
                .misses = pool->stats.misses,
                .dead = pool->stats.dead,
                .memory_bytes = pool->limits.memory_bytes,
            };
            (void)str_copy(ret[n].template_name, sizeof(ret[n].template_name), t->name);
            n++;
        }
    }
    return n;
}
