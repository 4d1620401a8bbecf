/* SPDX-License-Identifier: Apache-2.0 */
/* P15: whether twenty thousand boxes leave anything behind, or make the next one slower. */
#include <errno.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "host.h"
#include "peers.h"
#include "subject.h"

#define RUNS 20000
#define CROWD                                                                                      \
    300 /* more than launcher and zygote keep for later: fills what they keep, so that it cannot grow */
#define WARM_UP 1000
#define SLICE 100
#define PEER_SLICE 10
#define PARKED 8

/* What could grow. Bounds say what is noise: a leak grows with the runs and leaves any of them far behind. */
enum kind { RSS_KB, SLAB_KB, DESCRIPTORS, CGROUPS, NETNS, MOUNTS, PROCESSES, KINDS };

static const struct {
    const char *name;
    double slack;
} kinds[KINDS] = {
    [RSS_KB] = {"RSS of client, launcher and zygote, KB", 512},
    [SLAB_KB] = {"kernel slab in use, KB", 4096}, /* the whole machine's: 0.2 KB per run */
    [DESCRIPTORS] = {"descriptors", 0},
    [CGROUPS] = {"cgroups", 0},
    [NETNS] = {"network namespaces", 0},
    [MOUNTS] = {"mounts", 0},
    [PROCESSES] = {"processes", 0},
};

static int take_stock(double ret[KINDS], struct err *e)
{
    static struct host_family family;
    struct host_memory memory;
    size_t netns = 0;

    if (host_memory(&memory, e) < 0 || host_family(getpid(), &family, e) < 0) {
        return -1;
    }
    for (int i = 0; i < KINDS; i++) {
        ret[i] = 0;
    }
    ret[RSS_KB] = host_rss(getpid());
    ret[SLAB_KB] = memory.unreclaimable;
    ret[DESCRIPTORS] = (double)host_descriptors(getpid(), NULL);
    ret[MOUNTS] = (double)host_mounts(getpid());
    ret[PROCESSES] = (double)family.n;
    for (size_t i = 0; i < family.n; i++) {
        pid_t pid = family.members[i].pid;
        if (family.members[i].generation <= 2) { /* launcher, guard, zygote */
            ret[RSS_KB] += host_rss(pid);
            ret[DESCRIPTORS] += (double)host_descriptors(pid, &netns);
            ret[MOUNTS] += (double)host_mounts(pid);
        }
        if (family.members[i].generation == 1) {
            ret[CGROUPS] += (double)host_cgroups(pid);
        }
    }
    ret[NETNS] = (double)netns;
    return 0;
}

/* How many runs fit into the time of one exec of `true`, measured beside each other: other load hits both. */
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

static void report_leaks(struct world *w, const double before[KINDS], const double after[KINDS])
{
    struct row row = {.id = "P15",
                      .what = "kinds of things left behind",
                      .unit = "kinds",
                      .ours = {.n = KINDS},
                      .bar = {BAR_AT_MOST, true, 0, 0}};

    for (int i = 0; i < KINDS; i++) {
        bool leaked = after[i] - before[i] > kinds[i].slack;
        row.ours.p50 += leaked;
        fprintf(stderr, "    %-40s %9.0f -> %9.0f%s\n", kinds[i].name, before[i], after[i],
                leaked ? "  LEAK" : "");
    }
    row.ours.min = row.ours.p99 = row.ours.p50;
    report_add(&w->report, &row);
}

static int spend(struct world *w, struct subject *s, struct samples quarters[4], struct err *e)
{
    AUTO_SAMPLES struct samples ignored = {0};
    double before[KINDS];
    double after[KINDS];

    if (subject_pool(s, CROWD, CROWD, e) < 0 || subject_wait(s, CROWD, e) < 0 ||
        subject_pool(s, PARKED, PARKED, e) < 0 || run_many(s, WARM_UP, &ignored, e) < 0 ||
        come_to_rest(s, e) < 0 || take_stock(before, e) < 0) {
        return -1;
    }
    for (int q = 0; q < 4; q++) {
        if (run_many(s, RUNS / 4, &quarters[q], e) < 0) {
            return -1;
        }
    }
    if (come_to_rest(s, e) < 0 || take_stock(after, e) < 0) {
        return -1;
    }
    report_rates(w, &quarters[0], &quarters[3]);
    report_leaks(w, before, after);
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
