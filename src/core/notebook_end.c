/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cell from when it is sent to its end; see core.h.
 *
 * The deadline of a cell is ours, not the launcher's: the box outlives it. First the interpreter
 * is asked to stop (SIGINT, its state survives), then the context is killed and a pristine one
 * takes its place.
 */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/units.h"
#include "core/notebook_impl.h"

#define INTERRUPT_PATIENCE_MS 2000 /* from SIGINT to SIGKILL */
#define EXIT_PATIENCE_MS 2000      /* from a lost context to PID 1's word about it */

/* A cell's own part of counters that run over the whole notebook. */
static void subtract(struct launcher_usage *now, const struct launcher_usage *before)
{
    now->cpu_ns -= MIN(before->cpu_ns, now->cpu_ns);
    now->io_read -= MIN(before->io_read, now->io_read);
    now->io_write -= MIN(before->io_write, now->io_write);
    now->oom_kills -= MIN(before->oom_kills, now->oom_kills);
    now->pids_refused -= MIN(before->pids_refused, now->pids_refused);
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

    c->time_is_up = true;
    cell_keep(c);
    FAULT_POINT("execution.cell.time_is_up");
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

/*
 * The context is gone. Says why in run, and puts a pristine one in its place, which knows nothing
 * of the cell: from here on the note of the cell tells how it ended.
 */
static int replace_context(struct cell *c, bool timed_out, struct err *e)
{
    struct notebook *nb = c->notebook;
    int status = SIGKILL;

    if (!context_fate(nb->guest, c->context->pid, &status)) {
        status = SIGKILL;
    }
    c->run.signal = WIFSIGNALED(status) ? (uint32_t)WTERMSIG(status) : 0;
    c->run.exit_code = WIFEXITED(status) ? (uint32_t)WEXITSTATUS(status) : 0;
    c->verdict = verdict_of(c, timed_out);
    cell_keep(c);
    FAULT_POINT("execution.context.replaced");
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
    if (!c->has_own_peak && nb->guest->usage.memory_peak <= c->before.memory_peak) {
        nb->guest->usage.memory_peak = 0; /* it is that of an earlier cell */
    }
    return c->is_context_lost && !nb->guest->exited ? replace_context(c, timed_out, e) : 0;
}

/* An earlier process has seen its end, and replaced its context or was about to. */
static int settle_ended(struct cell *c, struct err *e)
{
    struct notebook *nb = c->notebook;

    c->run.ended_ns = clock_ns();
    run_drain(&c->run);
    if (c->context->pid != c->pid_before || nb->guest->exited) {
        return 0;
    }
    context_end(nb->guest, c->context);
    return notebook_replace_context(nb, c->context, e);
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

/* To its end, which is then in its verdict. */
static int drive(struct cell *c, struct err *e)
{
    struct run *run = &c->run;

    int r = run_drive(run, (int64_t)time_left(run), e);
    if (r > 0 && run->is_unbegun) {
        return 0;
    }
    bool timed_out = r == 0 || c->time_is_up;
    if (r == 0) {
        r = interrupt(c, e);
    }
    if (r < 0 || settle(c, timed_out, e) < 0) {
        return -1;
    }
    c->verdict = verdict_of(c, timed_out);
    return 0;
}

int cell_finish(struct cell *c, struct husk_result **ret, struct err *e)
{
    struct run *run = &c->run;

    *ret = NULL;
    if ((c->verdict != RUN_GOES_ON ? settle_ended(c, e) : drive(c, e)) < 0) {
        return -1;
    }
    memset(c->context->cell, 0, sizeof(c->context->cell));
    if (run->is_unbegun) {
        return 0;
    }
    run_conclude(run, c->verdict, 0, true);
    if (c->is_context_lost || c->notebook->guest->exited) {
        run->result->restart = restart_reason(run->result);
    }
    *ret = TAKE_PTR(run->result);
    return 0;
}
