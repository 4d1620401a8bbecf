/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Admission: so many at a time, so many in line, first come first served, each for a bounded
 * time.
 *
 * Unlike a fiber_queue, a wait here also ends when its fiber is woken and *cancel has become true.
 */
#include <errno.h>

#include "base/clock.h"
#include "service/service_impl.h"

struct gate_waiter {
    struct gate_waiter *next;
    struct fiber *fiber;
    bool called; /* a place was handed over; it is off the line */
};

static void leave_line(struct gate *g, const struct gate_waiter *w)
{
    for (struct gate_waiter **p = &g->first; *p != NULL; p = &(*p)->next) {
        if (*p == w) {
            *p = w->next;
            g->waiting--;
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
    g->waiting++;
}

int gate_wait(struct gate *g, int64_t timeout_ms, bool in_front, const bool *cancel)
{
    struct gate_waiter w = {.fiber = fiber_self()};
    uint64_t until = clock_ms() + (uint64_t)timeout_ms;

    if (g->taken < g->places && g->waiting == 0) {
        g->taken++;
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

int gate_enter(struct gate *g, int64_t timeout_ms, const bool *cancel, struct err *e)
{
    if (g->taken >= g->places && g->waiting >= g->line_max) {
        return err_set(e, ERR_LIMIT, "%zu runs are under way and %zu wait: try again later",
                       g->taken, g->waiting);
    }
    int r = gate_wait(g, timeout_ms, false, cancel);
    if (r == -ETIMEDOUT) {
        return err_set(e, ERR_LIMIT, "no place became free in time: try again later");
    }
    return r < 0 ? err_set(e, ERR_CONFLICT, "cancelled while it waited") : 0;
}

/* Hands a place to the first in line. */
static void call_first(struct gate *g)
{
    struct gate_waiter *w = g->first;

    g->first = w->next;
    g->waiting--;
    w->called = true;
    fiber_wake(w->fiber);
}

void gate_leave(struct gate *g)
{
    if (g->first == NULL || g->taken > g->places) {
        g->taken--;
        return;
    }
    call_first(g); /* the place is handed over: `taken` stays as it is */
}

void gate_resize(struct gate *g, size_t places, size_t line_max)
{
    g->places = places;
    g->line_max = line_max;
    while (g->first != NULL && g->taken < g->places) {
        g->taken++;
        call_first(g);
    }
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
