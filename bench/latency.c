/* SPDX-License-Identifier: Apache-2.0 */
/* P1 to P4: how long a caller waits for one piece of code. */
#include "base/str.h"
#include "match.h"
#include "subject.h"

#define CHUNK 20
#define PEER_CHUNK 10 /* for peers that take tens of ms and more */

#define DATA_CODE                                                                                  \
    "import numpy, pandas\n"                                                                       \
    "frame = pandas.DataFrame({'a': numpy.arange(10), 'b': 1.5})\n"                                \
    "print(int(frame['a'].sum()), frame['b'].sum())\n"
#define DATA_OUTPUT "45 15.0\n"

static struct contender contender_of(const char *name, struct subject *s)
{
    return (struct contender){.name = name,
                              .unit = "ms",
                              .chunk = CHUNK,
                              .prepare = s->warm ? subject_fill : NULL,
                              .once = subject_once,
                              .user = s};
}

static int run(struct world *w, struct match *m, struct err *e)
{
    struct subject *s = m->ours.user;
    int r = subject_open(s, s->warm ? CHUNK : 0, e);

    if (r == 0) {
        r = match_run(w, m, e);
    }
    subject_close(s);
    return r;
}

int bench_warm(struct world *w, struct err *e)
{
    static struct peer exec_true;
    static struct peer bwrap;
    struct subject s = {
        .world = w, .template_name = "python", .code = CODE, .expect = CODE_OUTPUT, .warm = true};

    peer_true(&exec_true);
    peer_bwrap(CODE, CODE_OUTPUT, &bwrap);
    struct match m = {
        .id = "P1",
        .what = "warm exec",
        .rested = true,
        .ours = contender_of("husk, warm pool", &s),
        .opponents = {opponent_of(&exec_true, CHUNK, AT_MOST(0.45, 0.40)),
                      opponent_of(&bwrap, PEER_CHUNK, AT_MOST(1 / 60.0, 1 / 80.0))},
        .n = 2,
    };
    if (run(w, &m, e) < 0) {
        return -1;
    }
    /* For comparison: with the end of each box overlapping the next run. */
    struct match rush = {
        .id = "P1",
        .what = "warm exec, back to back",
        .ours = contender_of("husk, back to back", &s),
        .opponents = {opponent_of(&exec_true, CHUNK, NO_BAR)},
        .n = 1,
    };
    return run(w, &rush, e);
}

int bench_cold(struct world *w, struct err *e)
{
    static struct peer exec_true;
    static struct peer bwrap;
    static struct peer crun;
    static struct peer runsc;
    static struct peer docker;
    struct subject s = {.world = w, .template_name = "python", .code = CODE, .expect = CODE_OUTPUT};

    peer_true(&exec_true);
    peer_bwrap(CODE, CODE_OUTPUT, &bwrap);
    peer_crun(w, CODE, CODE_OUTPUT, &crun);
    peer_runsc(w, CODE, CODE_OUTPUT, &runsc);
    peer_docker(w, CODE, CODE_OUTPUT, &docker);
    /* The floor was set against a current gVisor. */
    struct bar gvisor =
        str_eq(w->runsc_platform, "systrap") ? AT_MOST(1 / 60.0, 1 / 100.0) : NO_BAR;
    struct match m = {
        .id = "P2",
        .what = "cold exec",
        .rested = true,
        .ours = contender_of("husk, cold", &s),
        .opponents = {opponent_of(&exec_true, CHUNK, AT_MOST(2.2, 2.0)),
                      opponent_of(&bwrap, PEER_CHUNK, AT_MOST(1 / 12.0, 1 / 16.0)),
                      opponent_of(&crun, PEER_CHUNK, AT_MOST(1 / 16.0, 1 / 18.0)),
                      opponent_of(&runsc, PEER_CHUNK, gvisor),
                      opponent_of(&docker, PEER_CHUNK, NO_BAR)},
        .n = 5,
    };
    int r = run(w, &m, e);
    peer_release(&crun);
    return r;
}

/* One race of three: a new box and a parked one against the same bwrap. */
static int race_data(struct world *w, struct contender all[3], const char *absent, struct err *e)
{
    if (race_run(all, absent == NULL ? 3 : 2, RACE_ROUNDS, e) < 0) {
        return -1;
    }
    match_report(w, &(struct match){.id = "P3",
                                    .what = "data exec, cold",
                                    .ours = all[0],
                                    .opponents = {{all[2], absent, AT_MOST(1 / 35.0, 1 / 100.0)}},
                                    .n = 1});
    match_report(w, &(struct match){.id = "P3",
                                    .what = "data exec, pool",
                                    .ours = all[1],
                                    .opponents = {{all[2], absent, AT_MOST(1 / 100.0, 1 / 250.0)}},
                                    .n = 1});
    return 0;
}

int bench_data(struct world *w, struct err *e)
{
    static struct peer bwrap;
    struct subject cold = {
        .world = w, .template_name = "bench-data", .code = DATA_CODE, .expect = DATA_OUTPUT};
    struct subject pool = cold;

    pool.warm = true;
    peer_bwrap(DATA_CODE, DATA_OUTPUT, &bwrap);
    bwrap.recorded_ms = 420;
    struct opponent peer = opponent_of(&bwrap, PEER_CHUNK, NO_BAR);
    struct contender all[3] = {contender_of("husk, cold", &cold), contender_of("husk, pool", &pool),
                               peer.contender};
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        all[i].rested = true;
    }
    int r = subject_open(&cold, 0, e);
    if (r == 0) {
        r = subject_open(&pool, CHUNK, e);
    }
    if (r == 0) {
        r = race_data(w, all, peer.absent, e);
    }
    subject_close(&cold);
    subject_close(&pool);
    return r;
}

/* Both zygotes are there at the same time; only their memory differs. */
int bench_size_flat(struct world *w, struct err *e)
{
    struct subject large = {
        .world = w, .template_name = "bench-1g", .code = CODE, .expect = CODE_OUTPUT};
    struct subject small = large;

    small.template_name = "bench-64m";
    struct match m = {
        .id = "P4",
        .what = "cold exec, 1 GB zygote",
        .rested = true,
        .ours = contender_of("husk, 1 GB zygote", &large),
        .opponents = {{.contender = contender_of("64 MB zygote", &small),
                       .bar = AT_MOST(1.3, 1.1)}},
        .n = 1,
    };
    int r = subject_open(&small, 0, e);
    if (r == 0) {
        r = run(w, &m, e);
    }
    subject_close(&small);
    return r;
}
