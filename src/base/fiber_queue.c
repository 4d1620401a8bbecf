/* SPDX-License-Identifier: Apache-2.0 */
/* Queues of fibers; see fiber.h. */
#include <errno.h>

#include "base/clock.h"
#include "base/fiber.h"

struct fiber_waiter {
    struct fiber_waiter *next;
    struct fiber *fiber;
    bool called;
};

static void queue_remove(struct fiber_queue *q, const struct fiber_waiter *w)
{
    struct fiber_waiter *before = NULL;

    for (struct fiber_waiter **p = &q->first; *p != NULL; before = *p, p = &(*p)->next) {
        if (*p == w) {
            *p = w->next;
            if (q->last == w) {
                q->last = before;
            }
            return;
        }
    }
}

int fiber_queue_wait(struct fiber_queue *q, int64_t timeout_ms)
{
    struct fiber_waiter w = {.fiber = fiber_self()};
    uint64_t until = timeout_ms < 0 ? UINT64_MAX : clock_ms() + (uint64_t)timeout_ms;

    if (q->last != NULL) {
        q->last->next = &w;
    } else {
        q->first = &w;
    }
    q->last = &w;
    while (!w.called) {
        uint64_t now = clock_ms();
        if (now >= until) {
            queue_remove(q, &w);
            return -ETIMEDOUT;
        }
        (void)fiber_poll(NULL, 0, timeout_ms < 0 ? -1 : (int64_t)(until - now));
    }
    return 0;
}

bool fiber_queue_wake(struct fiber_queue *q)
{
    struct fiber_waiter *w = q->first;

    if (w == NULL) {
        return false;
    }
    q->first = w->next;
    if (q->first == NULL) {
        q->last = NULL;
    }
    w->called = true;
    fiber_wake(w->fiber);
    return true;
}

void fiber_queue_wake_all(struct fiber_queue *q)
{
    while (fiber_queue_wake(q)) {
    }
}
