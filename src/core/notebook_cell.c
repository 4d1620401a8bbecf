/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running a cell in a context of a notebook; see core.h.
 *
 * The deadline of a cell is ours, not the launcher's: the box outlives it. First the interpreter
 * is asked to stop (SIGINT, its state survives), then the context is killed and a pristine one
 * takes its place.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/rand.h"
#include "base/units.h"
#include "box/cgroup.h"
#include "core/notebook_impl.h"
#include "core/run_frames.h"

#define INTERRUPT_PATIENCE_MS 2000 /* from SIGINT to SIGKILL */
#define EXIT_PATIENCE_MS 2000      /* from a lost context to PID 1's word about it */
#define FRAME_SLACK 65536
#define ONE_PIECE 65536 /* the socket of a context that waits for a cell takes this at once */

/*
 * Enough to tell later whether the kernel killed something of this cell for its memory; the rest is
 * read when it is wanted.
 */
static int usage_before(const struct cell *c, struct launcher_usage *ret, struct err *e)
{
    struct notebook *nb = c->notebook;

    if (!c->run.spec->no_metrics || nb->guest->view.n == 0) {
        return guest_usage(nb->engine, nb->guest, false, ret, e);
    }
    *ret = (struct launcher_usage){
        .oom_kills = cgroup_view_oom_kills(&nb->guest->view, nb->guest->counters.fds),
        .disk_free = UINT64_MAX,
        .inodes_free = UINT64_MAX,
    };
    return 0;
}

/* A cell's own part of counters that run over the whole notebook. */
static void subtract(struct launcher_usage *now, const struct launcher_usage *before)
{
    now->cpu_ns -= MIN(before->cpu_ns, now->cpu_ns);
    now->io_read -= MIN(before->io_read, now->io_read);
    now->io_write -= MIN(before->io_write, now->io_write);
    now->oom_kills -= MIN(before->oom_kills, now->oom_kills);
    now->pids_refused -= MIN(before->pids_refused, now->pids_refused);
}

/* Most cells have nothing to read: one pipe without a writer serves all of a notebook. */
static int empty_input(struct notebook *nb, struct err *e)
{
    int p[2];

    if (nb->no_input > 0) {
        return nb->no_input;
    }
    if (pipe2(p, O_CLOEXEC) < 0) {
        return err_sys(e, errno, "pipe");
    }
    close(p[1]);
    nb->no_input = p[0];
    return nb->no_input;
}

/* Our end does not block; nothing else is set on a new pipe. Returns theirs. */
static int open_pipe(int *ours, bool to_box, struct err *e)
{
    int p[2];

    if (pipe2(p, O_CLOEXEC) < 0) {
        return err_sys(e, errno, "pipe");
    }
    *ours = p[to_box ? 1 : 0];
    (void)fcntl(*ours, F_SETFL, O_NONBLOCK);
    return p[to_box ? 0 : 1];
}

/*
 * Our ends are kept in pipes: what the run does with its numbers does not matter for closing them.
 */
static int open_pipes(struct cell *c, int theirs[3], struct err *e)
{
    struct run *run = &c->run;
    bool has_input = run->spec->stdin_fd > 0 || run->spec->stdin_len > 0;

    theirs[0] = has_input ? open_pipe(&run->in, true, e) : empty_input(c->notebook, e);
    theirs[1] = theirs[0] < 0 ? -1 : open_pipe(&run->out, false, e);
    c->pipes[1] = run->out;
    theirs[2] = theirs[1] < 0 ? -1 : open_pipe(&run->err, false, e);
    c->pipes[2] = run->err;
    return theirs[2] < 0 ? -1 : 0;
}

static void on_sent(void *user)
{
    struct cell *c = user;

    if (c->context->has_part) {
        notebook_keep_part(c, false);
    }
    if (c->tag[0] != '\0') {
        cell_keep(c, c->tag, c->has_own_context);
    }
}

/* The rest of a long one goes while the cell is driven. */
static void hand_over(struct cell *c, const int theirs[3])
{
    struct run *run = &c->run;

    if (run->request.len > ONE_PIECE) {
        notebook_keep_part(c, true);
    }
    run_send_request(run, theirs, 3);
    if (run->request.len > 0 && !c->context->has_part) { /* buffers are smaller here */
        notebook_keep_part(c, true);
    }
}

static int send_cell(struct cell *c, struct err *e)
{
    struct run *run = &c->run;
    int theirs[3] = {-1, -1, -1};

    run->request = BUF_INIT(FRAME_TO_BOX_MAX + FRAME_SLACK);
    run->on_sent = on_sent;
    run->sent_user = c;
    rand_bytes(run->token, sizeof(run->token));
    int r = run_frame(run->spec, &run->limits, run->token, &run->request, e);
    if (r == 0) {
        r = open_pipes(c, theirs, e);
    }
    if (r == 0) {
        run->started_ns = clock_ns();
        memcpy(c->context->cell, run->token, sizeof(run->token));
        hand_over(c, theirs);
    }
    for (int i = theirs[0] == c->notebook->no_input ? 1 : 0; i < 3; i++) {
        fd_close(&theirs[i]);
    }
    if (run->channel_lost) {
        run->ended_ns = run->started_ns;
    }
    return r;
}

struct cell *cell_new(struct notebook *nb, struct context *context, const struct husk_spec *spec,
                      const struct run_hooks *hooks, struct err *e)
{
    struct cell *c = malloc(sizeof(*c));

    if (c == NULL) {
        err_sys(e, ENOMEM, "cell");
        return NULL;
    }
    *c = (struct cell){
        .notebook = nb,
        .context = context,
        .run = {.engine = nb->engine,
                .spec = spec,
                .hooks = hooks,
                .guest = nb->guest,
                .channel = &context->channel,
                .in = -1,
                .out = -1,
                .err = -1,
                .in_session = true,
                .pid = context->pid,
                .phase = RUN_RUNNING,
                .losses = nb->guest->share.losses,
                .limits = nb->limits},
        .pipes = {-1, -1, -1},
    };
    nb->guest->runs++;
    if (spec->limits.timeout_ms != 0) {
        c->run.limits.timeout_ms = spec->limits.timeout_ms;
    }
    if (spec->limits.output_bytes != 0) {
        c->run.limits.output_bytes = spec->limits.output_bytes;
    }
    return c;
}

struct cell *cell_start(struct notebook *nb, uint32_t context, const struct husk_spec *spec,
                        const struct run_hooks *hooks, struct err *e)
{
    struct context *to = notebook_context(nb, context, false, e);

    if (to == NULL || run_check(spec, e) < 0) {
        return NULL;
    }
    if (nb->guest->exited) {
        err_set(e, ERR_NOT_FOUND, "the session's box has ended");
        return NULL;
    }
    if (notebook_mend_context(nb, context, e) < 0) {
        return NULL;
    }
    struct cell *c = cell_new(nb, to, spec, hooks, e);
    if (c == NULL) {
        return NULL;
    }
    channel_drop_pending(&to->channel);
    if (run_init(&c->run, e) < 0 || usage_before(c, &c->before, e) < 0 || send_cell(c, e) < 0) {
        cell_release(c);
        return NULL;
    }
    return c;
}

void cell_interrupt(struct cell *c)
{
    struct err ignored;

    (void)context_signal(c->notebook->guest, c->context, SIGINT, &ignored);
}

static uint64_t time_left(const struct run *run)
{
    uint64_t ran_ms = (clock_ns() - run->started_ns) / NS_PER_MS;

    return run->limits.timeout_ms - MIN(ran_ms, run->limits.timeout_ms);
}

/* Time is up: ask (SIGINT, state survives), then insist. 1: over; -1. */
static int interrupt(struct cell *c, struct err *e)
{
    struct guest *box = c->notebook->guest;

    if (context_signal(box, c->context, SIGINT, e) < 0) {
        return -1;
    }
    int r = run_drive(&c->run, INTERRUPT_PATIENCE_MS, e);
    if (r != 0) {
        return r;
    }
    if (context_signal(box, c->context, SIGKILL, e) < 0) {
        return -1;
    }
    c->is_context_lost = true; /* even if the cell ends by itself meanwhile */
    return run_drive(&c->run, EXIT_PATIENCE_MS, e) < 0 ? -1 : 1;
}

/* The context is gone. Says why in run, and puts a pristine one in its place. */
static int replace_context(struct cell *c, struct err *e)
{
    struct notebook *nb = c->notebook;
    int status = SIGKILL;

    if (!context_fate(nb->guest, c->context->pid, &status)) {
        status = SIGKILL;
    }
    c->run.signal = WIFSIGNALED(status) ? (uint32_t)WTERMSIG(status) : 0;
    c->run.exit_code = WIFEXITED(status) ? (uint32_t)WEXITSTATUS(status) : 0;
    channel_release(&c->context->channel);
    c->context->used = false;
    return notebook_replace_context(nb, c->context, e);
}

/*
 * A cell that was stopped takes along whatever it has started. What it left to itself when it ended
 * by itself lives on.
 */
static void stop_all(struct cell *c, struct err *e)
{
    struct notebook *nb = c->notebook;

    if (c->is_context_lost) {
        (void)context_signal(nb->guest, c->context, SIGKILL, e);
    }
    bool is_swept = context_sweep(nb->guest, nb->contexts, ARRAY_LEN(nb->contexts), c->context,
                                  c->run.started_ns);
    if (!is_swept && !c->is_context_lost) {
        /*
         * Perhaps it comes later, and would take the next cell's processes: only a context that is
         * made after it is safe.
         */
        (void)context_signal(nb->guest, c->context, SIGKILL, e);
        c->is_context_lost = true;
    }
    run_drain(&c->run); /* what was written until now */
}

/* What it cost, and a context for the next cell if this one broke its own. */
static int settle(struct cell *c, bool timed_out, struct err *e)
{
    struct notebook *nb = c->notebook;
    struct run *run = &c->run;

    if (nb->guest->exited) {
        return 0;
    }
    c->is_context_lost = c->is_context_lost || run->phase != RUN_DONE;
    if (timed_out || run->stopped != RUN_GOES_ON) {
        stop_all(c, e);
    }
    if (nb->guest->exited) {
        return 0;
    }
    bool went_wrong = c->is_context_lost || run->exit_code != 0;
    nb->guest->usage = c->before;
    if ((went_wrong || !run->spec->no_metrics) &&
        guest_usage(nb->engine, nb->guest, went_wrong, &nb->guest->usage, e) < 0) {
        return -1;
    }
    subtract(&nb->guest->usage, &c->before);
    return c->is_context_lost && !nb->guest->exited ? replace_context(c, e) : 0;
}

static enum run_verdict verdict_of(const struct cell *c, bool timed_out)
{
    if (c->run.stopped != RUN_GOES_ON) {
        return c->run.stopped;
    }
    if (timed_out) { /* whatever the interrupted cell said */
        return RUN_TIMED_OUT;
    }
    /* Of a context that was replaced, PID 1 has told the end. */
    bool is_known = c->is_context_lost ? !c->notebook->guest->exited : c->run.phase == RUN_DONE;
    return is_known ? RUN_BY_CLAIM : RUN_BY_FACTS;
}

/* Its end is that of the interpreter. */
static const char *restart_reason(const struct husk_result *r)
{
    switch (r->status) {
    case HUSK_TIMEOUT:
    case HUSK_MEMORY_EXCEEDED:
    case HUSK_CANCELLED:
    case HUSK_CRASHED:
        return husk_status_name(r->status);
    case HUSK_COMPLETED:
    case HUSK_FAILED:
        break;
    }
    return r->termination.cause == HUSK_CAUSE_OUTPUT_LIMIT ? "output_limit" : "exited";
}

int cell_finish(struct cell *c, struct husk_result **ret, struct err *e)
{
    struct run *run = &c->run;

    int r = run_drive(run, (int64_t)time_left(run), e);
    bool timed_out = r == 0;
    if (timed_out) {
        r = interrupt(c, e);
    }
    if (r < 0 || settle(c, timed_out, e) < 0) {
        return -1;
    }
    memset(c->context->cell, 0, sizeof(c->context->cell));
    run_conclude(run, verdict_of(c, timed_out), 0, true);
    if (c->is_context_lost || c->notebook->guest->exited) {
        run->result->restart = restart_reason(run->result);
    }
    *ret = TAKE_PTR(run->result);
    return 0;
}

void cell_release(struct cell *c)
{
    if (c == NULL) {
        return;
    }
    fd_close(&c->run.in);
    fd_close(&c->pipes[1]);
    fd_close(&c->pipes[2]);
    c->run.guest->runs--;
    run_give_back(&c->run);
    run_release(&c->run);
    free(c);
}

int notebook_run(struct notebook *nb, uint32_t context, const struct husk_spec *spec,
                 const struct run_hooks *hooks, struct husk_result **ret, struct err *e)
{
    struct cell *c = cell_start(nb, context, spec, hooks, e);
    int r = c != NULL ? cell_finish(c, ret, e) : -1;

    cell_release(c);
    return r;
}
