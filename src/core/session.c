/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions: one box, many cells, contexts that can be branched and gone back to; see include/husk/husk.h.
 *
 * Contexts and checkpoints share one table, so a number means the same everywhere.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/rand.h"
#include "core/context.h"
#include "core/run.h"

#define CONTEXTS_MAX 64
#define START_PATIENCE_MS 15000
#define INTERRUPT_PATIENCE_MS 2000 /* from SIGINT to SIGKILL */
#define EXIT_PATIENCE_MS 2000      /* from a lost context to PID 1's word about it */

struct husk_session {
    struct husk_engine *engine;
    struct guest *guest;
    struct limits limits;
    struct context contexts[CONTEXTS_MAX];
    struct launcher_usage before; /* of the cell that runs */
};

static struct context *context_get(struct husk_session *s, uint32_t id, bool checkpoint,
                                   struct err *e)
{
    if (id >= CONTEXTS_MAX || !s->contexts[id].used ||
        s->contexts[id].is_checkpoint != checkpoint) {
        err_set(e, ERR_NOT_FOUND, "the session has no %s %u", checkpoint ? "checkpoint" : "context",
                id);
        return NULL;
    }
    return &s->contexts[id];
}

static struct context *context_free_slot(struct husk_session *s, uint32_t *id, struct err *e)
{
    for (uint32_t i = 0; i < CONTEXTS_MAX; i++) {
        if (!s->contexts[i].used) {
            *id = i;
            return &s->contexts[i];
        }
    }
    err_set(e, ERR_LIMIT, "a session has at most %d contexts and checkpoints", CONTEXTS_MAX);
    return NULL;
}

static int usage_now(struct husk_session *s, struct launcher_usage *ret, struct err *e)
{
    struct launcher_req req = {.op = LAUNCHER_USAGE, .box_id = s->guest->box_id, .usage.disk = 1};
    struct launcher_rep rep;

    if (native_call(s->engine->native, &req, NULL, 0, &rep, e) < 0) {
        return e->code == ERR_NOT_FOUND ? engine_dispatch(s->engine, e) : -1;
    }
    *ret = rep.box.usage;
    return 0;
}

/* A cell's own part of counters that run over the whole session. */
static void subtract(struct launcher_usage *now, const struct launcher_usage *before)
{
    now->cpu_ns -= MIN(before->cpu_ns, now->cpu_ns);
    now->io_read -= MIN(before->io_read, now->io_read);
    now->io_write -= MIN(before->io_write, now->io_write);
    now->oom_kills -= MIN(before->oom_kills, now->oom_kills);
    now->pids_refused -= MIN(before->pids_refused, now->pids_refused);
}

/* Our ends are kept in pipes: what the run does with its numbers does not matter for closing them. */
static int open_pipes(struct run *run, int pipes[3], int theirs[3], struct err *e)
{
    int *ours[3] = {&run->in, &run->out, &run->err};

    for (int i = 0; i < 3; i++) {
        int p[2];
        if (pipe2(p, O_CLOEXEC) < 0) {
            return err_sys(e, errno, "pipe");
        }
        *ours[i] = i == 0 ? p[1] : p[0];
        theirs[i] = i == 0 ? p[0] : p[1];
        (void)fd_set_nonblock(*ours[i], true);
        pipes[i] = i == 0 ? -1 : *ours[i]; /* the run closes its stdin itself */
    }
    return 0;
}

static int send_cell(struct run *run, int pipes[3], struct err *e)
{
    AUTO_BUF struct buf frame = BUF_INIT(FRAME_TO_BOX_MAX + 65536);
    int theirs[3] = {-1, -1, -1};

    rand_bytes(run->token, sizeof(run->token));
    int r = run_frame(run->spec, &run->limits, run->token, &frame, e);
    if (r == 0) {
        r = open_pipes(run, pipes, theirs, e);
    }
    if (r == 0) {
        run->started_ns = clock_ns();
        r = channel_send(run->channel, &frame, theirs, 3, e);
    }
    for (int i = 0; i < 3; i++) {
        fd_close(&theirs[i]);
    }
    return r;
}

/* Time is up: ask (SIGINT, state survives), then insist. 1: over; -1. */
static int interrupt(struct husk_session *s, struct run *run, const struct context *c,
                     struct err *e)
{
    if (context_send(&s->guest->control, FRAME_SIGNAL, NULL, c->pid, SIGINT, e) < 0) {
        return -1;
    }
    int r = run_drive(run, INTERRUPT_PATIENCE_MS, e);
    if (r != 0) {
        return r;
    }
    if (context_send(&s->guest->control, FRAME_SIGNAL, NULL, c->pid, SIGKILL, e) < 0) {
        return -1;
    }
    r = run_drive(run, EXIT_PATIENCE_MS, e);
    return r < 0 ? -1 : 1;
}

/* The context is gone. Says why in run, and puts a pristine one in its place. */
static int replace_context(struct husk_session *s, struct run *run, struct context *c,
                           struct err *e)
{
    int status = SIGKILL;

    if (!context_fate(s->guest, c->pid, &status)) {
        status = SIGKILL;
    }
    run->signal = WIFSIGNALED(status) ? (uint32_t)WTERMSIG(status) : 0;
    run->exit_code = WIFEXITED(status) ? (uint32_t)WEXITSTATUS(status) : 0;
    channel_release(&c->channel);
    c->used = false;
    return context_start(s->engine, s->guest, c, &s->guest->control, FRAME_CONTEXT, e);
}

static int cell(struct husk_session *s, struct run *run, struct context *c, int pipes[3],
                struct err *e)
{
    bool timed_out = false;

    if (usage_now(s, &s->before, e) < 0) {
        return -1;
    }
    int r = send_cell(run, pipes, e);
    if (r < 0 && e->sys_errno == EPIPE) {
        run->channel_lost = true; /* killed between two cells: this one is told */
        run->ended_ns = run->started_ns;
        r = 1;
    } else if (r == 0) {
        r = run_drive(run, (int64_t)run->limits.timeout_ms, e);
    }
    if (r == 0) {
        timed_out = true;
        r = interrupt(s, run, c, e);
    }
    if (r < 0) {
        return -1;
    }
    bool stop = run->cancelled || run->flooded || run->broke_protocol;
    if (stop && !run->done) {
        (void)context_send(&s->guest->control, FRAME_SIGNAL, NULL, c->pid, SIGKILL, e);
    }
    if (!s->guest->exited) {
        if (usage_now(s, &s->guest->usage, e) < 0) {
            return -1;
        }
        subtract(&s->guest->usage, &s->before);
    }
    if (!run->done && !s->guest->exited) {
        if (replace_context(s, run, c, e) < 0) {
            return -1;
        }
        run->done = true; /* as far as the verdict goes: signal and exit code are known */
    }
    s->guest->end = timed_out ? LAUNCHER_END_TIMEOUT : s->guest->end;
    if (timed_out) {
        run->done = false; /* whatever the interrupted cell said, its end is the timeout */
    }
    run_conclude(run, 0, true);
    s->guest->end = LAUNCHER_END_SELF;
    return 0;
}

static int open_session(struct husk_engine *engine, const struct husk_spec *spec,
                        struct husk_session *s, struct err *e)
{
    const char *name = spec->template_name != NULL ? spec->template_name : "python";
    struct guest_options options = {.mode = LAUNCHER_SESSION};

    struct live_template *live = live_get(engine, name, !spec->no_pool, e);
    if (live == NULL) {
        return -1;
    }
    if (live->def.info.language != HUSK_PYTHON) {
        return err_set(e, ERR_INVALID, "sessions need a python template, %s is none", name);
    }
    if (engine_limits(&spec->limits, &live->def.info.limits, &s->limits, e) < 0) {
        return -1;
    }
    options.limits = s->limits;
    s->engine = engine;
    s->guest = guest_start(engine, live, &options, e);
    if (s->guest == NULL) {
        return -1;
    }
    while (s->guest->state == GUEST_STARTING && !s->guest->exited) {
        if (engine_wait(engine, START_PATIENCE_MS, e) < 0) {
            return -1;
        }
    }
    if (s->guest->state != GUEST_READY) {
        return err_set(e, ERR_ISOLATION, "%s", s->guest->failure);
    }
    guest_unwatch(engine, s->guest);
    return context_start(s->engine, s->guest, &s->contexts[0], &s->guest->control, FRAME_CONTEXT,
                         e);
}

int husk_session_open(struct husk_engine *engine, const struct husk_spec *spec,
                      struct husk_session **ret, struct husk_error *error)
{
    struct err e = {0};

    struct husk_session *s = calloc(1, sizeof(*s));
    if (s == NULL || open_session(engine, spec, s, &e) < 0) {
        if (s == NULL) {
            err_sys(&e, ENOMEM, "session");
        }
        husk_session_close(s);
        engine_error_export(&e, error);
        return -1;
    }
    *ret = s;
    return 0;
}

void husk_session_close(struct husk_session *s)
{
    if (s == NULL) {
        return;
    }
    for (size_t i = 0; i < CONTEXTS_MAX; i++) {
        if (s->contexts[i].used) {
            channel_release(&s->contexts[i].channel);
        }
    }
    if (s->guest != NULL) {
        guest_free(s->engine, s->guest);
    }
    free(s);
}

static int session_run(struct husk_session *s, uint32_t id, const struct husk_spec *spec,
                       struct husk_result **ret, struct err *e)
{
    struct run run = {.engine = s->engine,
                      .spec = spec,
                      .guest = s->guest,
                      .in = -1,
                      .out = -1,
                      .err = -1,
                      .in_session = true,
                      .ready = true,
                      .limits = s->limits};

    struct context *c = context_get(s, id, false, e);
    if (c == NULL || run_check(spec, e) < 0) {
        return -1;
    }
    if (s->guest->exited) {
        return err_set(e, ERR_NOT_FOUND, "the session's box has ended");
    }
    if (spec->limits.timeout_ms != 0) {
        run.limits.timeout_ms = spec->limits.timeout_ms;
    }
    run.channel = &c->channel;
    if (run_init(&run, e) < 0) {
        return -1;
    }
    int pipes[3] = {-1, -1, -1};
    int r = cell(s, &run, c, pipes, e);
    fd_close(&run.in);
    fd_close(&pipes[1]);
    fd_close(&pipes[2]);
    if (r == 0) {
        *ret = TAKE_PTR(run.result);
    }
    run_release(&run);
    return r;
}

int husk_session_run(struct husk_session *s, uint32_t context, const struct husk_spec *spec,
                     struct husk_result **ret, struct husk_error *error)
{
    struct err e = {0};

    if (session_run(s, context, spec, ret, &e) < 0) {
        engine_error_export(&e, error);
        return -1;
    }
    return 0;
}

int husk_session_reset(struct husk_session *s, uint32_t context, struct husk_error *error)
{
    struct err e = {0};

    struct context *c = context_get(s, context, false, &e);
    if (c != NULL) {
        context_end(s->guest, c);
    }
    if (c == NULL ||
        context_start(s->engine, s->guest, c, &s->guest->control, FRAME_CONTEXT, &e) < 0) {
        engine_error_export(&e, error);
        return -1;
    }
    return 0;
}

/* Copies a context into a new slot. */
static int copy_context(struct husk_session *s, uint32_t from, bool checkpoint, uint32_t *ret,
                        struct husk_error *error)
{
    struct err e = {0};
    struct context *to = NULL;
    uint32_t id;

    struct context *c = context_get(s, from, false, &e);
    if (c != NULL) {
        to = context_free_slot(s, &id, &e);
    }
    if (to == NULL || context_start(s->engine, s->guest, to, &c->channel, FRAME_BRANCH, &e) < 0) {
        engine_error_export(&e, error);
        return -1;
    }
    to->is_checkpoint = checkpoint;
    *ret = id;
    return 0;
}

int husk_session_checkpoint(struct husk_session *s, uint32_t context, uint32_t *ret,
                            struct husk_error *e)
{
    return copy_context(s, context, true, ret, e);
}

int husk_session_branch(struct husk_session *s, uint32_t context, uint32_t *ret,
                        struct husk_error *e)
{
    return copy_context(s, context, false, ret, e);
}

int husk_session_restore(struct husk_session *s, uint32_t context, uint32_t checkpoint,
                         struct husk_error *error)
{
    struct err e = {0};

    struct context *c = context_get(s, context, false, &e);
    struct context *from = c != NULL ? context_get(s, checkpoint, true, &e) : NULL;
    if (from != NULL) {
        context_end(s->guest, c);
    }
    if (from == NULL ||
        context_start(s->engine, s->guest, c, &from->channel, FRAME_BRANCH, &e) < 0) {
        engine_error_export(&e, error);
        return -1;
    }
    return 0;
}
