/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One at a time: a context's cells, first come first served, each for a bounded time. Which runs go
 * on at the same time in the whole server is decided in places.c.
 *
 * Unlike a fiber_queue, a wait here also ends when its fiber is woken and *cancel has become true.
 */
#include <errno.h>

#include "base/clock.h"
#include "service/service_impl.h"

struct gate_waiter {
    struct gate_waiter *next;
    struct fiber *fiber;
    bool called; /* the place was handed over; it is off the line */
};

static void leave_line(struct gate *g, const struct gate_waiter *w)
{
    for (struct gate_waiter **p = &g->first; *p != NULL; p = &(*p)->next) {
        if (*p == w) {
            *p = w->next;
            return;
        }
    }
}

static void join_line(struct gate *g, struct gate_waiter *w, bool in_front)
{
    struct gate_waiter **at = &g->first;

    while (*at != NULL && !in_front) {
        at = &(*at)->next;
    }
    w->next = *at;
    *at = w;
}

int gate_wait(struct gate *g, int64_t timeout_ms, bool in_front, const bool *cancel)
{
    struct gate_waiter w = {.fiber = fiber_self()};
    uint64_t until = clock_ms() + (uint64_t)timeout_ms;

    if (!g->is_taken) {
        g->is_taken = true;
        return 0;
    }
    join_line(g, &w, in_front);
    while (!w.called) {
        uint64_t now = clock_ms();
        bool cancelled = cancel != NULL && *cancel;
        if (cancelled || now >= until) {
            leave_line(g, &w);
            return cancelled ? -ECANCELED : -ETIMEDOUT;
        }
        (void)fiber_poll(NULL, 0, (int64_t)(until - now));
    }
    return 0;
}

/* The first in line gets it, or it becomes free. */
void gate_leave(struct gate *g)
{
    struct gate_waiter *w = g->first;

    if (w == NULL) {
        g->is_taken = false;
        return;
    }
    g->first = w->next;
    w->called = true;
    fiber_wake(w->fiber);
}

size_t gate_position(const struct gate *g, const struct fiber *f)
{
    size_t n = 1;

    for (const struct gate_waiter *w = g->first; w != NULL; w = w->next, n++) {
        if (w->fiber == f) {
            return n;
        }
    }
    return 0;
}
