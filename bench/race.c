/* SPDX-License-Identifier: Apache-2.0 */
/* Alternating measurements; see race.h. */
#include "race.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#define SETTLE_NS 50000000L
#define REST_NS 2000000L

/* What one contender leaves to be cleared away must not slow the next one. */
static void settle(long ns)
{
    const struct timespec pause = {.tv_nsec = ns};

    nanosleep(&pause, NULL);
}

static int run_chunk(struct contender *c, struct err *e)
{
    double value;

    if (c->prepare != NULL) {
        if (c->prepare(c->user, c->chunk, e) < 0) {
            return err_wrap(e, "%s", c->name);
        }
        settle(SETTLE_NS);
    }
    for (int i = 0; i < c->chunk; i++) {
        if (c->rested) {
            settle(REST_NS);
        }
        if (c->once(c->user, &value, e) < 0) {
            return err_wrap(e, "%s", c->name);
        }
        if (samples_add(&c->samples, value) < 0) {
            return err_sys(e, ENOMEM, "samples");
        }
    }
    return 0;
}

static int run_rounds(struct contender *contenders, size_t n, int rounds, struct err *e)
{
    for (int round = 0; round < rounds; round++) {
        for (size_t i = 0; i < n; i++) {
            settle(SETTLE_NS);
            if (run_chunk(&contenders[i], e) < 0) {
                return -1;
            }
        }
    }
    return 0;
}

/* True when a peer says that the machine was busy with something else. */
static bool summarise(struct contender *contenders, size_t n)
{
    bool busy = false;

    for (size_t i = 0; i < n; i++) {
        struct contender *c = &contenders[i];
        c->summary = samples_summary(&c->samples);
        samples_release(&c->samples);
        busy = busy || (c->recorded > 0 && c->summary.p50 > 2 * c->recorded);
        fprintf(stderr, "    %-24s min %9.3f  p50 %9.3f  p99 %9.3f %s  (%zu)\n", c->name,
                c->summary.min, c->summary.p50, c->summary.p99, c->unit, c->summary.n);
    }
    return busy;
}

int race_run(struct contender *contenders, size_t n, int rounds, struct err *e)
{
    int r = run_rounds(contenders, n, rounds, e);

    if (summarise(contenders, n) && r == 0) {
        fprintf(stderr, "    a peer took over twice its recorded time: measuring once more\n");
        r = run_rounds(contenders, n, rounds, e);
        (void)summarise(contenders, n);
    }
    return r;
}
