/* SPDX-License-Identifier: Apache-2.0 */
/* P12: a copy of a live session, all its variables included, beside a bare fork of as much. */
#include "bare_fork.h"
#include "base/clock.h"
#include "match.h"
#include "subject.h"

#define CHUNK 10
#define STATE_MB "100"
#define STATE_CODE "state = bytearray(b'x') * (" STATE_MB " << 20)"

static int branch_and_run(struct husk_session *session, double *ret_pause, double *ret_all,
                          struct err *e)
{
    struct husk_error h;
    uint32_t context;
    double ignored;

    uint64_t begun = clock_ns();
    if (husk_session_branch(session, 0, &context, &h) < 0) {
        return subject_error(&h, e);
    }
    *ret_pause = (double)(clock_ns() - begun) / 1e6;
    if (subject_cell(session, context, CODE, CODE_OUTPUT, &ignored, e) < 0) {
        return -1;
    }
    *ret_all = (double)(clock_ns() - begun) / 1e6;
    return 0;
}

/* A live session, for as many branches as it may have. They stay: nothing ends them but its end. */
struct live {
    struct subject *subject;
    struct husk_session *session;
    int branches;
};

static void end(struct live *live)
{
    if (live->session != NULL) {
        husk_session_close(live->session);
    }
    live->session = NULL;
    live->branches = 0;
}

static int begin(struct live *live, struct err *e)
{
    const struct husk_spec spec = {.template_name = live->subject->template_name};
    struct husk_error h;
    double ignored;

    end(live);
    if (husk_session_open(live->subject->engine, &spec, &live->session, &h) < 0) {
        live->session = NULL;
        return subject_error(&h, e);
    }
    return subject_cell(live->session, 0, STATE_CODE, "", &ignored, e);
}

static int once(struct live *live, double *ret_pause, double *ret_all, struct err *e)
{
    if ((live->session == NULL || live->branches == CHUNK) && begin(live, e) < 0) {
        return -1;
    }
    live->branches++;
    return branch_and_run(live->session, ret_pause, ret_all, e);
}

static int branch_once(void *user, double *ret, struct err *e)
{
    double ignored;

    return once(user, &ignored, ret, e);
}

static int pause_once(void *user, double *ret, struct err *e)
{
    double ignored;

    return once(user, ret, &ignored, e);
}

/* Two rows: the first line in the branch, and how long the session itself waited. */
static int race(struct world *w, struct live *live, struct child *child, struct err *e)
{
    struct match m = {
        .id = "P12",
        .what = "branch, first line in it",
        .rested = true,
        .ours = {.name = "husk, branch",
                 .unit = "ms",
                 .chunk = CHUNK,
                 .once = branch_once,
                 .user = live},
        .opponents = {{.contender = {.name = "fork of as much",
                                     .unit = "ms",
                                     .chunk = CHUNK,
                                     .once = bare_fork_once,
                                     .user = child},
                       .bar = AT_MOST(1.8, 1.5)}},
        .n = 1,
    };

    if (match_run(w, &m, e) < 0) {
        return -1;
    }
    m.what = "branch, its session goes on";
    m.ours.once = pause_once;
    m.opponents[0].bar = NO_BAR;
    return match_run(w, &m, e);
}

int bench_branch(struct world *w, struct err *e)
{
    struct subject s = {.world = w, .template_name = "python", .code = CODE, .expect = CODE_OUTPUT};
    struct child child = {.socket = -1, .out = -1};
    struct live live = {.subject = &s};

    int r = bare_fork_open(&child, w, STATE_MB, e);
    if (r == 0) {
        r = subject_open(&s, 0, e);
    }
    if (r == 0) {
        r = race(w, &live, &child, e);
    }
    end(&live);
    subject_close(&s);
    child_close(&child);
    return r;
}
