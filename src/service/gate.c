/* SPDX-License-Identifier: Apache-2.0 */
/* Admission: so many at a time, so many in line, and nobody waits for ever. */
#include <errno.h>

#include "base/clock.h"
#include "service/impl.h"

int gate_enter(struct gate *g, int64_t timeout_ms, const bool *cancel, struct err *e)
{
    uint64_t until = clock_ms() + (uint64_t)timeout_ms;

    if (g->taken < g->places && g->waiting == 0) {
        g->taken++;
        return 0;
    }
    if (g->waiting >= g->line_max) {
        return err_set(e, ERR_LIMIT, "%zu runs are under way and %zu wait: try again later",
                       g->taken, g->waiting);
    }
    g->waiting++;
    int r = 0;
    /* A place that is given up is handed to the first in line: `taken` stays as it is. */
    while (r == 0) {
        uint64_t now = clock_ms();
        r = fiber_queue_wait(&g->line, now >= until ? 0 : (int64_t)(until - now));
        if (r == 0 && (cancel == NULL || !*cancel)) {
            break;
        }
        if (r == 0) { /* it is ours, but we want it no more */
            gate_leave(g);
            r = -ECANCELED;
        }
    }
    g->waiting--;
    if (r == -ETIMEDOUT) {
        return err_set(e, ERR_LIMIT, "no place became free in time: try again later");
    }
    if (r < 0) {
        return err_set(e, ERR_CONFLICT, "cancelled while it waited");
    }
    return 0;
}

void gate_leave(struct gate *g)
{
    if (!fiber_queue_wake(&g->line)) {
        g->taken--;
    }
}
