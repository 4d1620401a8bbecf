/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Boxes that are lost before they ran anything, and the one place that asks for another.
 *
 * A zygote may die, or be killed because it is stuck. Its boxes die with it. One that was not ready
 * has run no code of a user, so the same request can be made again with the next zygote.
 */
#include "base/clock.h"
#include "core/engine_impl.h"

#define BIRTHS_MAX 3
#define ZYGOTE_END_MS 100 /* from a box that is lost with its zygote to the news of the zygote */

bool guest_is_unborn(const struct guest *g)
{
    return g->exited && g->end == LAUNCHER_END_ZYGOTE &&
           (g->refusal.code == ERR_NONE || g->refusal.code == ERR_TEMPLATE);
}

/* The news of its zygote's end is on its way; until then no other one can be started. */
static int await_zygote_end(struct engine *engine, struct live_template *live, struct err *e)
{
    uint64_t until = clock_ms() + ZYGOTE_END_MS;

    for (uint64_t now = clock_ms(); live->open && now < until; now = clock_ms()) {
        if (fiber_self() != NULL) {
            (void)fiber_queue_wait(&live->start_queue, (int64_t)(until - now));
        } else if (engine_wait(engine, (int)(until - now), e) < 0) {
            return -1;
        }
    }
    return engine->lost ? engine_lost(e) : 0;
}

static int try_with(struct engine *engine, struct live_template *live,
                    const struct guest_options *options, const struct guest_use *use, struct err *e)
{
    struct guest *g = use->parked;

    for (int births = 1;; births++) {
        if (g == NULL && live_start(engine, live, NULL, 0, e) < 0) {
            return -1;
        }
        if (g == NULL) {
            g = guest_make(engine, live, options, e);
        }
        int r = g != NULL ? use->fn(use->user, g, e) : -1;
        bool was_lost = g != NULL ? r == GUEST_UNBORN : e->code == ERR_NOT_FOUND;
        if (!was_lost) {
            return r;
        }
        struct err refusal = g != NULL ? g->refusal : (struct err){0};
        guest_free(engine, g);
        g = NULL;
        if (births == BIRTHS_MAX || live->one_off) {
            if (refusal.code != ERR_NONE) {
                *e = refusal;
                return -1;
            }
            return err_set(e, ERR_TEMPLATE, "template %s: its zygotes die before a box is ready",
                           live->name);
        }
        if (await_zygote_end(engine, live, e) < 0) {
            return -1;
        }
    }
}

int guest_with(struct engine *engine, struct live_template *live,
               const struct guest_options *options, const struct guest_use *use, struct err *e)
{
    int r = try_with(engine, live, options, use, e);

    engine->births_failed += r < 0;
    return r;
}

uint64_t engine_births_failed(const struct engine *engine)
{
    return engine->births_failed;
}

static int take(void *user, struct guest *g, struct err *e)
{
    struct guest **ret = user;

    (void)e;
    *ret = g;
    return 0;
}

struct guest *guest_start(struct engine *engine, struct live_template *live,
                          const struct guest_options *options, struct err *e)
{
    struct guest *g = NULL;
    const struct guest_use use = {.fn = take, .user = &g};

    return guest_with(engine, live, options, &use, e) < 0 ? NULL : g;
}
