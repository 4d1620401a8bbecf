/* SPDX-License-Identifier: Apache-2.0 */
/* P5 and P6: how much a machine can do, and what one run costs it. */
#include "match.h"
#include "subject.h"
#include "work.h"

#define PARKED 8 /* boxes that each worker keeps ready */
#define SUBJECT_SECONDS 3.0
#define PEER_SECONDS 2.0

/* A job as a contender: its rate, or its CPU time per run. */
struct load {
    struct job job;
    int workers;
    double seconds;
    int runs;
};

static int rate_once(void *user, double *ret, struct err *e)
{
    struct load *load = user;

    return work_rate(&load->job, load->workers, load->seconds, ret, e);
}

static int cpu_once(void *user, double *ret, struct err *e)
{
    struct load *load = user;

    return work_cpu(&load->job, load->runs, ret, e);
}

static int open_pooled(void *user, struct err *e)
{
    struct subject *s = user;

    if (subject_open(s, PARKED, e) < 0) {
        return -1;
    }
    return subject_pool(s, PARKED, PARKED, e) < 0 ? -1 : subject_wait(s, PARKED, e);
}

static int open_cold(void *user, struct err *e)
{
    return subject_open(user, 0, e);
}

static void close_subject(void *user)
{
    subject_close(user);
}

static struct opponent peer_load(struct load *load, struct peer *p, const struct contender *ours,
                                 struct bar bar)
{
    struct opponent o = opponent_of(p, 1, bar);

    load->job = (struct job){.name = p->name, .once = peer_once, .user = p};
    o.contender.unit = ours->unit;
    o.contender.once = ours->once;
    o.contender.user = load;
    o.contender.recorded = 0; /* that one is a time, and not per run in a crowd */
    return o;
}

int bench_rate(struct world *w, struct err *e)
{
    static struct peer exec_true;
    static struct peer bwrap;
    struct subject s = {.world = w, .template_name = "python", .code = CODE, .expect = CODE_OUTPUT};
    struct load ours = {
        .job = {"husk, pool", open_pooled, subject_once_pooled, close_subject, &s},
        .workers = w->cores,
        .seconds = SUBJECT_SECONDS,
    };
    struct load peers[2] = {{.workers = w->cores, .seconds = PEER_SECONDS},
                            {.workers = w->cores, .seconds = PEER_SECONDS}};

    peer_true(&exec_true);
    peer_bwrap(CODE, CODE_OUTPUT, &bwrap);
    struct match m = {
        .id = "P5",
        .what = "runs per second, all cores",
        .ours = {.name = ours.job.name, .unit = "/s", .chunk = 1, .once = rate_once, .user = &ours},
        .n = 2,
    };
    m.opponents[0] = peer_load(&peers[0], &bwrap, &m.ours, AT_LEAST(7.5, 8));
    m.opponents[1] = peer_load(&peers[1], &exec_true, &m.ours, AT_LEAST(0.25, 0.30));
    return match_run(w, &m, e);
}

int bench_cpu(struct world *w, struct err *e)
{
    static struct peer exec_true;
    static struct peer bwrap;
    struct subject s = {.world = w, .template_name = "python", .code = CODE, .expect = CODE_OUTPUT};
    struct load ours = {.job = {"husk, cold", open_cold, subject_once, close_subject, &s},
                        .runs = 200};
    struct load peers[2] = {{.runs = 200}, {.runs = 40}};

    peer_true(&exec_true);
    peer_bwrap(CODE, CODE_OUTPUT, &bwrap);
    struct match m = {
        .id = "P6",
        .what = "CPU time per run",
        .ours = {.name = ours.job.name, .unit = "ms", .chunk = 1, .once = cpu_once, .user = &ours},
        .n = 2,
    };
    m.opponents[0] = peer_load(&peers[0], &exec_true, &m.ours, AT_MOST(2.9, 2.0));
    m.opponents[1] = peer_load(&peers[1], &bwrap, &m.ours, AT_MOST(1 / 10.0, 1 / 12.0));
    return match_run(w, &m, e);
}
