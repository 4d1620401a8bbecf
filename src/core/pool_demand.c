/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How large the pools of a server are: as large as the last second's demand wanted, between min and
 * max, and smaller again without demand; see core.h.
 *
 * Every size of box that is asked for gets a pool of its own (pool.c) once it was missed; a pool
 * without demand goes.
 */
#include <errno.h>

#include "base/str.h"
#include "core/pool_impl.h"

int engine_keep_pool(struct engine *engine, const struct pool_plan *plan, struct err *e)
{
    enum launcher_mode mode = plan->persistent ? LAUNCHER_SESSION : LAUNCHER_ONCE;
    uint32_t max = MAX(plan->min, plan->max);
    struct limits limits;

    struct live_template *live = live_get(engine, plan->template_name, true, e);
    if (live == NULL || engine_limits(&plan->limits, &live->def.info.limits, &limits, e) < 0) {
        return -1;
    }
    struct pool *pool = pool_adaptive(live, mode, &limits, plan->min, max);
    if (pool !=
        NULL) { /* else the template has enough of them: its boxes are made when asked for */
        pool->kept = true;
        pool->floor = plan->min;
        pool->max = max;
        pool->min = MIN(MAX(pool->min, pool->floor), pool->max);
    }
    fiber_wake(engine->pool_keeper);
    return 0;
}

void engine_set_adaptive(struct engine *engine, uint32_t max)
{
    engine->adaptive_max = max;
}

void engine_unkeep_pools(struct engine *engine, uint32_t max)
{
    for (struct live_template *t = engine->templates; t != NULL; t = t->next) {
        for (struct pool *pool = t->pools; pool != NULL; pool = pool->next) {
            pool->kept = false;
            pool->floor = 0;
            pool->max = max;
            pool->min = MIN(pool->min, max);
        }
    }
}

/* Supply follows demand up at once and down slowly. */
static void adjust(struct pool *pool, uint64_t idle_rounds)
{
    uint64_t taken = pool->stats.hits + pool->stats.misses;
    uint64_t demand = taken - pool->seen;

    pool->seen = taken;
    if (demand > 0) {
        pool->quiet = 0;
        pool->min = (uint32_t)MIN(MAX((uint64_t)pool->min, demand), (uint64_t)pool->max);
    } else if (pool->min > pool->floor && ++pool->quiet >= MAX(idle_rounds, (uint64_t)1)) {
        pool->quiet = 0;
        pool->min = MAX(pool->floor, pool->min / 2);
    }
}

void engine_adjust_pools(struct engine *engine, uint64_t idle_rounds)
{
    for (struct live_template *t = engine->templates; t != NULL; t = t->next) {
        struct pool *next;
        for (struct pool *pool = t->pools; pool != NULL; pool = next) {
            next = pool->next;
            if (t->retired) {
                pool->kept = false;
                pool->floor = 0;
                pool->min = 0;
            }
            adjust(pool, idle_rounds);
            pool_trim(engine, pool);
            if (!pool->kept && pool->min == 0 && pool->stats.starting == 0 && !pool->busy &&
                ++pool->quiet > idle_rounds) {
                pool_remove(engine, t, pool);
            }
        }
    }
    fiber_wake(engine->pool_keeper);
}

size_t engine_pools(const struct engine *engine, struct engine_pool *ret, size_t max)
{
    size_t n = 0;

    for (const struct live_template *t = engine->templates; t != NULL; t = t->next) {
        for (const struct pool *pool = t->pools; pool != NULL && n < max; pool = pool->next) {
            ret[n] = (struct engine_pool){
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
