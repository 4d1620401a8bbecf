/* SPDX-License-Identifier: Apache-2.0 */
/*
 * P10: one more cell in a session that lives, by the library, beside the round trip that it cannot
 * do without.
 */
#include "echo.h"
#include "match.h"
#include "subject.h"

#define CHUNK 25

static int cell_once(void *user, double *ret, struct err *e)
{
    return subject_cell(user, 0, CODE, CODE_OUTPUT, ret, e);
}

/* A cell leaves nothing to clear away, so no contender pauses. */
static int run(struct world *w, struct subject *s, struct echo *echo, struct err *e)
{
    const struct husk_spec spec = {.template_name = s->template_name};
    static struct peer exec_true;
    struct husk_session *session;
    struct husk_error h;
    double ignored;

    if (husk_session_open(s->engine, &spec, &session, &h) < 0) {
        return subject_error(&h, e);
    }
    peer_true(&exec_true);
    struct match m = {
        .id = "P10",
        .what = "n-th exec in a session",
        .ours = {.name = "husk, live session",
                 .unit = "ms",
                 .chunk = CHUNK,
                 .once = cell_once,
                 .user = session},
        .opponents = {{.contender = {.name = "unix socket round trip",
                                     .unit = "ms",
                                     .chunk = CHUNK,
                                     .once = echo_once,
                                     .user = echo},
                       .bar = AT_MOST(15, 8)},
                      opponent_of(&exec_true, CHUNK, NO_BAR)},
        .n = 2,
    };
    int r = cell_once(session, &ignored, e); /* the n-th, not the first */
    if (r == 0) {
        r = match_run(w, &m, e);
    }
    husk_session_close(session);
    return r;
}

int bench_session_exec(struct world *w, struct err *e)
{
    struct subject s = {.world = w, .template_name = "python", .code = CODE, .expect = CODE_OUTPUT};
    struct echo echo = {.socket = -1};

    int r = echo_unix(&echo, e);
    if (r == 0) {
        r = subject_open(&s, 0, e);
    }
    if (r == 0) {
        r = run(w, &s, &echo, e);
    }
    subject_close(&s);
    echo_close(&echo);
    return r;
}
