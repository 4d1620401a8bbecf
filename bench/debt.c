/* SPDX-License-Identifier: Apache-2.0 */
/* P15: whether twenty thousand boxes leave anything behind, or make the next one slower. */
#include <errno.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "peers.h"
#include "stock.h"
#include "subject.h"

#define RUNS 20000
/* more than launcher and zygote keep for later: fills what they keep, so that it cannot grow */
#define CROWD 300
#define WARM_UP 1000
#define SLICE 100
#define PEER_SLICE 10
#define PARKED 8

/*
 * How many runs fit into the time of one exec of `true`, measured beside each other: other load
 * hits both.
 */
static int run_many(struct subject *s, int n, struct samples *rates, struct err *e)
{
    static struct peer exec_true;
    double ignored;
    double took;

    peer_true(&exec_true);
    for (int done = 0; done < n; done += SLICE) {
        double peer_ms = 0;
        uint64_t begun = clock_ns();
        for (int i = 0; i < SLICE; i++) {
            if (subject_once_pooled(s, &ignored, e) < 0) {
                return -1;
            }
        }
        double ours_ms = (double)(clock_ns() - begun) / 1e6 / SLICE;
        for (int i = 0; i < PEER_SLICE; i++) {
            if (peer_once(&exec_true, &took, e) < 0) {
                return -1;
            }
            peer_ms += took / PEER_SLICE;
        }
        if (samples_add(rates, peer_ms / ours_ms) < 0) {
            return err_sys(e, ENOMEM, "samples");
        }
    }
    return 0;
}

/* Back to the state that is compared: the pool full, everything else ended. */
static int come_to_rest(struct subject *s, struct err *e)
{
    const struct timespec pause = {.tv_sec = 1};

    if (subject_wait(s, PARKED, e) < 0) {
        return -1;
    }
    nanosleep(&pause, NULL);
    return 0;
}

static void report_rates(struct world *w, struct samples *first, struct samples *last)
{
    struct row row = {.id = "P15",
                      .what = "last quarter of 20,000 runs",
                      .unit = "per E",
                      .peer_name = "first quarter",
                      .ours = samples_summary(last),
                      .peer = samples_summary(first),
                      .bar = AT_LEAST(0.9, 0.97)};

    report_add(&w->report, &row);
    fprintf(stderr, "    runs in the time of one exec: first quarter %.3f, last quarter %.3f\n",
            row.peer.p50, row.ours.p50);
}

static int spend(struct world *w, struct subject *s, struct samples quarters[4], struct err *e)
{
    AUTO_SAMPLES struct samples ignored = {0};
    struct stock before;
    struct stock after;

    if (subject_pool(s, CROWD, CROWD, e) < 0 || subject_wait(s, CROWD, e) < 0 ||
        subject_pool(s, PARKED, PARKED, e) < 0 || run_many(s, WARM_UP, &ignored, e) < 0 ||
        come_to_rest(s, e) < 0 || stock_take(getpid(), &before, e) < 0) {
        return -1;
    }
    for (int q = 0; q < 4; q++) {
        if (run_many(s, RUNS / 4, &quarters[q], e) < 0) {
            return -1;
        }
    }
    if (come_to_rest(s, e) < 0 || stock_take(getpid(), &after, e) < 0) {
        return -1;
    }
    report_rates(w, &quarters[0], &quarters[3]);
    stock_report(w, "P15", &before, &after);
    return 0;
}

int bench_debt(struct world *w, struct err *e)
{
    struct samples quarters[4] = {{0}, {0}, {0}, {0}};
    struct subject s = {.world = w, .template_name = "python", .code = CODE, .expect = CODE_OUTPUT};

    int r = subject_open(&s, CROWD, e);
    if (r == 0) {
        r = spend(w, &s, quarters, e);
    }
    subject_close(&s);
    for (int q = 0; q < 4; q++) {
        samples_release(&quarters[q]);
    }
    return r;
}
