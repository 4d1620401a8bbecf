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

int bench_warm(struct world *w, struct err *e)
{
    static struct peer exec_true;
    static struct peer bwrap;
    struct subject s = {.world = w,
                        .template_name = "python",
                        .code = CODE,
                        .expect = CODE_OUTPUT,
                        .warm = true};
    struct contender ours = contender_of("husk, warm pool", &s);
    const struct match matches[] = {
        {&exec_true, CHUNK, {BAR_AT_MOST, false, 0.40, 0.20}},
        {&bwrap, PEER_CHUNK, {BAR_AT_MOST, false, 1 / 60.0, 0}},
    };

    peer_true(&exec_true);
    peer_bwrap(CODE, CODE_OUTPUT, &bwrap);
    int r = subject_open(&s, CHUNK, e);
    if (r == 0) {
        r = match_run(w, "P1", "warm exec", &ours, matches, ARRAY_LEN(matches), e);
    }
    subject_close(&s);
    return r;
}

int bench_cold(struct world *w, struct err *e)
{
    static struct peer exec_true;
    static struct peer bwrap;
    static struct peer crun;
    static struct peer runsc;
    static struct peer docker;
    struct subject s = {
        .world = w, .template_name = "python", .code = CODE, .expect = CODE_OUTPUT};
    struct contender ours = contender_of("husk, cold", &s);
    const struct match matches[] = {
        {&exec_true, CHUNK, {BAR_AT_MOST, false, 2.0, 1.0}},
        {&bwrap, PEER_CHUNK, {BAR_AT_MOST, false, 1 / 12.0, 0}},
        {&crun, PEER_CHUNK, {BAR_AT_MOST, false, 1 / 18.0, 0}},
        {&runsc, PEER_CHUNK, {BAR_AT_MOST, false, 1 / 60.0, 1 / 100.0}},
        {&docker, PEER_CHUNK, {BAR_NONE, false, 0, 0}},
    };

    peer_true(&exec_true);
    peer_bwrap(CODE, CODE_OUTPUT, &bwrap);
    peer_crun(w, CODE, CODE_OUTPUT, &crun);
    peer_runsc(w, CODE, CODE_OUTPUT, &runsc);
    peer_docker(w, CODE, CODE_OUTPUT, &docker);
    int r = subject_open(&s, 0, e);
    if (r == 0) {
        r = match_run(w, "P2", "cold exec", &ours, matches, ARRAY_LEN(matches), e);
    }
    subject_close(&s);
    peer_release(&crun);
    return r;
}

int bench_data(struct world *w, struct err *e)
{
    static struct peer bwrap;
    struct subject s = {
        .world = w, .template_name = "bench-data", .code = DATA_CODE, .expect = DATA_OUTPUT};
    struct contender ours = contender_of("husk, cold", &s);
    const struct match matches[] = {
        {&bwrap, PEER_CHUNK, {BAR_AT_MOST, false, 1 / 100.0, 1 / 250.0}},
    };

    peer_bwrap(DATA_CODE, DATA_OUTPUT, &bwrap);
    bwrap.recorded_ms = 420;
    int r = subject_open(&s, 0, e);
    if (r == 0) {
        r = match_run(w, "P3", "data exec, cold", &ours, matches, ARRAY_LEN(matches), e);
    }
    subject_close(&s);
    return r;
}

/* Both templates are there at the same time; only the memory of their zygotes differs. */
int bench_size_flat(struct world *w, struct err *e)
{
    struct subject large = {
        .world = w, .template_name = "bench-1g", .code = CODE, .expect = CODE_OUTPUT};
    struct subject small = large;
    const struct bar bar = {BAR_AT_MOST, false, 1.3, 1.1};
    int r = -1;

    small.template_name = "bench-64m";
    if (subject_open(&large, 0, e) == 0 && subject_open(&small, 0, e) == 0) {
        struct contender both[] = {contender_of("husk, 1 GB in the zygote", &large),
                                   contender_of("husk, 64 MB", &small)};
        r = race_run(both, ARRAY_LEN(both), RACE_ROUNDS, e);
        if (r == 0) {
            match_report(w, "P4", "cold exec, 1 GB template", &both[0], &both[1], &bar);
        }
    }
    subject_close(&large);
    subject_close(&small);
    return r;
}
