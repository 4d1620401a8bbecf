/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for something that is about to happen; see fiber.h.
 *
 * On a virtual machine, putting a processor to sleep and waking it costs tens of microseconds, more
 * than a short cell takes. So one fiber at a time may poll actively for a moment before it really
 * waits. Other fibers run between two polls, so none is blocked. The price is processor time, so it
 * stops when that is wasted: with only one processor, or when the last polls were in vain.
 */
#include <errno.h>
#include <sched.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/fiber.h"

#define LOOK_NS 200000u /* longest active poll; about as long as a short run */
#define LUCK_MAX 8
#define RETRY_EVERY 64 /* waits between two tries when out of luck */

static _Thread_local struct {
    bool looking;
    int luck; /* plus one for a poll that succeeded, minus two for one that did not */
    unsigned skipped;
    int processors; /* 0: not known yet */
} state = {.luck = LUCK_MAX};

static int processors(void)
{
    cpu_set_t set;

    if (state.processors == 0) {
        state.processors = sched_getaffinity(0, sizeof(set), &set) < 0 ? 1 : CPU_COUNT(&set);
    }
    return state.processors;
}

static bool pays(void)
{
    if (state.looking || fiber_self() == NULL || processors() < 2) {
        return false;
    }
    return state.luck > 0 || ++state.skipped % RETRY_EVERY == 0;
}

/* As poll() without waiting; 0 when the time is up or the fiber was woken. */
static int look(struct pollfd *fds, size_t n)
{
    uint64_t until = clock_ns() + LOOK_NS;
    int r;

    for (;;) {
        r = poll(fds, n, 0);
        if (r != 0 || fiber_yield() || clock_ns() >= until) {
            return r;
        }
        sched_yield(); /* the process that we wait for may share this processor */
    }
}

int fiber_poll_soon(struct pollfd *fds, size_t n, int64_t timeout_ms)
{
    if (!pays()) {
        return fiber_poll(fds, n, timeout_ms);
    }
    state.looking = true;
    int r = look(fds, n);
    state.looking = false;
    state.luck = r > 0 ? MIN(state.luck + 1, LUCK_MAX) : MAX(state.luck - 2, 0);
    return r > 0 ? r : fiber_poll(fds, n, timeout_ms);
}
