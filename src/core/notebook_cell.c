/* SPDX-License-Identifier: Apache-2.0 */
/* Sending a cell to a context of a notebook; see core.h. How it ends is in notebook_end.c. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/rand.h"
#include "base/str.h"
#include "base/units.h"
#include "box/cgroup.h"
#include "core/notebook_impl.h"
#include "core/run_frames.h"

#define FRAME_SLACK 65536
#define ONE_PIECE 65536 /* the socket of a context that waits for a cell takes this at once */

/*
 * From now on the peak of memory is this cell's. Not if others run beside it: they share it, and
 * theirs began earlier.
 */
static void begin_peak(struct cell *c, const struct launcher_usage *before)
{
    struct guest *g = c->notebook->guest;

    g->peak_before = MAX(g->peak_before, before->memory_peak);
    c->has_own_peak =
        g->runs > 1 || (g->view.n > 0 && cgroup_view_reset_peak(&g->view, g->counters.fds));
}

/*
 * Enough to tell later whether the kernel killed something of this cell for its memory; the rest is
 * read when it is wanted.
 */
static int usage_before(struct cell *c, struct launcher_usage *ret, struct err *e)
{
    struct notebook *nb = c->notebook;

    if (!c->run.spec->no_metrics || nb->guest->view.n == 0) {
        if (guest_usage(nb->engine, nb->guest, false, ret, e) < 0) {
            return -1;
        }
        begin_peak(c, ret);
        return 0;
    }
    *ret = (struct launcher_usage){
        .oom_kills = cgroup_view_oom_kills(&nb->guest->view, nb->guest->counters.fds),
        .disk_free = UINT64_MAX,
        .inodes_free = UINT64_MAX,
    };
    return 0;
}

/*
 * Most cells have nothing to read: they get a pipe without a writer. It is not kept for the next
 * cell, since a thousand idle sessions would hold a thousand of them.
 */
static int empty_input(struct err *e)
{
    int p[2];

    if (pipe2(p, O_CLOEXEC) < 0) {
        return err_sys(e, errno, "pipe");
    }
    close(p[1]);
    return p[0];
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

    theirs[0] = has_input ? open_pipe(&run->in, true, e) : empty_input(e);
    theirs[1] = theirs[0] < 0 ? -1 : open_pipe(&run->out, false, e);
    c->pipes[1] = run->out;
    theirs[2] = theirs[1] < 0 ? -1 : open_pipe(&run->err, false, e);
    c->pipes[2] = run->err;
    if (theirs[2] < 0) {
        return -1;
    }
    /* A driver's interpreter opens them by name, with an id that is not ours. */
    for (int i = 0; i < 3 && c->context->language != HUSK_PYTHON; i++) {
        if (fchmod(theirs[i], 0666) < 0) {
            return err_sys(e, errno, "pipe");
        }
    }
    return 0;
}

static void on_sent(void *user)
{
    struct cell *c = user;

    if (c->context->has_part) {
        notebook_keep_part(c, false);
    }
}

/* The rest of a long one goes while the cell is driven. */
static void hand_over(struct cell *c, const int theirs[3])
{
    struct run *run = &c->run;

    if (run->request.len > ONE_PIECE) {
        notebook_keep_part(c, true);
    }
    FAULT_POINT("execution.cell.kept");
    run_send_request(run, theirs, 3);
    FAULT_POINT("execution.cell.sent");
    if (run->request.len > 0 && !c->context->has_part) { /* buffers are smaller here */
        notebook_keep_part(c, true);
    }
}

/*
 * Before the first byte: a successor that finds no cell knows that none was sent, and one that
 * finds it asks its context. So the context comes first.
 */
static void keep_before(struct cell *c)
{
    if (c->tag[0] != '\0' && c->has_own_context) {
        c->context->is_own = true;
        notebook_keep_context(c->notebook, c->context);
        FAULT_POINT("execution.command.cell_not_kept");
    }
    cell_keep(c);
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
        run_feed(run); /* what the pipe takes is safe there */
        keep_before(c);
        hand_over(c, theirs);
    }
    for (int i = 0; i < 3; i++) {
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

/* A command is a script of its own. */
static int check_language(const struct husk_spec *spec, const struct context *c, struct err *e)
{
    return c->is_own ? 0 : run_check_cell(spec, c->language, e);
}

struct cell *cell_start(struct notebook *nb, uint32_t context, const struct husk_spec *spec,
                        const struct run_hooks *hooks, const struct cell_keeping *keep,
                        struct err *e)
{
    struct context *to = notebook_context(nb, context, false, e);

    if (to == NULL || run_check(spec, e) < 0 || check_language(spec, to, e) < 0) {
        return NULL;
    }
    if (nb->guest->exited) {
        err_set(e, ERR_NOT_FOUND, "the session's box has ended");
        return NULL;
    }
    context_await_interrupt(nb->guest);
    if (notebook_mend_context(nb, context, e) < 0) {
        return NULL;
    }
    struct cell *c = cell_new(nb, to, spec, hooks, e);
    if (c == NULL) {
        return NULL;
    }
    if (keep != NULL) {
        (void)str_copy(c->tag, sizeof(c->tag), keep->tag);
        c->has_own_context = keep->has_own_context;
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
    struct cell *c = cell_start(nb, context, spec, hooks, NULL, e);
    int r = c != NULL ? cell_finish(c, ret, e) : -1;

    cell_release(c);
    return r;
}
