/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of single-use boxes in a server; see engine_impl.h.
 *
 * Telling the launcher wakes it, closing the box's ends wakes the box, and both compete with the
 * answer for the processors. So the fiber that ran a box only puts it here, and another one does
 * the rest when that one waits again.
 */
#include <sched.h>

#include "core/engine_impl.h"

static void release(struct engine *engine, struct guest *g)
{
    struct err ignored; /* gone is as good */

    (void)backend_release(engine->backend, g->box_id, &ignored);
    guest_free(engine, g);
}

static void release_all(struct engine *engine)
{
    while (engine->retired != NULL) {
        struct guest *g = engine->retired;
        engine->retired = g->next;
        release(engine, g);
    }
}

static void release_as_they_come(void *user)
{
    struct engine *engine = user;

    engine->releaser = fiber_self();
    while (!engine->closing) {
        (void)fiber_poll(NULL, 0, -1);
        sched_yield(); /* the client that was just answered may need this processor */
        release_all(engine);
    }
    engine->releaser = NULL;
}

int retire_serve(struct engine *engine, struct err *e)
{
    int r = fiber_start(release_as_they_come, engine);

    return r < 0 ? err_sys(e, -r, "start a fiber") : 0;
}

void guest_retire(struct engine *engine, struct guest *g)
{
    if (g == NULL || !g->release_later) {
        guest_free(engine, g);
        return;
    }
    if (g->live->one_off) { /* its template goes with it, now */
        release(engine, g);
        return;
    }
    g->next = engine->retired;
    engine->retired = g;
    fiber_wake(engine->releaser);
}
