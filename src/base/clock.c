/* SPDX-License-Identifier: Apache-2.0 */
/* Monotonic time; see clock.h. */
#include "base/clock.h"

#include <time.h>

#include "base/units.h"

static uint64_t read_ns(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * NS_PER_SEC + (uint64_t)t.tv_nsec;
}

uint64_t clock_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}

uint64_t clock_boot_ns(void)
{
    return read_ns(CLOCK_BOOTTIME);
}

uint64_t clock_ms(void)
{
    return clock_ns() / NS_PER_MS;
}

int64_t clock_wall_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / NS_PER_MS;
}
