/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far a run is, and what happened: decides status, exit code and cause from facts and claims.
 *
 * Facts are the launcher's: how the box ended, what it used. Claims are the box's: exit code,
 * error. Facts are asked first, and a claim never overrides one.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/str.h"
#include "base/units.h"
#include "core/run.h"

#define DISK_FULL_BELOW 4096 /* less than a page: nothing more can be written */

/*
 * gcc 12's analyzer loses sight of what a result owns once it is stored there; husk_result_free()
 * frees it.
 */
#if defined(__GNUC__) && !defined(__clang__)
#    pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

enum {
    EXIT_TIMEOUT = 124,
    EXIT_INTERNAL = 125,
    EXIT_CANCELLED = 130,
    EXIT_OOM = 137,
    EXIT_FLOOD = 153
};

bool run_step(struct run *run, enum run_phase to)
{
    static const bool allowed[RUN_PHASES][RUN_PHASES] = {
        [RUN_STARTING] = {[RUN_RUNNING] = true, [RUN_DONE] = true, [RUN_FAILED] = true},
        [RUN_RUNNING] = {[RUN_DONE] = true},
    };

    if (!allowed[run->phase][to]) {
        return false;
    }
    run->phase = to;
    return true;
}

void run_stop(struct run *run, enum run_verdict why)
{
    if (run->stopped == RUN_GOES_ON || why < run->stopped) {
        run->stopped = why;
    }
}

static void end(struct husk_result *r, enum husk_status status, enum husk_cause cause, int code)
{
    r->status = status;
    r->termination.cause = cause;
    r->exit_code = code;
}

#define DETAIL(r, ...)                                                                             \
    (void)str_format((r)->termination.detail, sizeof((r)->termination.detail), __VA_ARGS__)
#define LIMIT(r, ...)                                                                              \
    (void)str_format((r)->termination.limit, sizeof((r)->termination.limit), __VA_ARGS__)

/* "64 MiB", "100 KiB": whole units that a person set. */
static void limit_size(struct husk_result *r, const char *what, uint64_t bytes)
{
    if (bytes >= (1u << 20)) {
        LIMIT(r, "%s %" PRIu64 " MiB", what, bytes >> 20);
    } else {
        LIMIT(r, "%s %" PRIu64 " KiB", what, bytes >> 10);
    }
}

static void end_by_signal(const struct run *run, int sig)
{
    struct husk_result *r = run->result;
    const char *name = sigabbrev_np(sig);

    end(r, HUSK_CRASHED, HUSK_CAUSE_SIGNAL, 128 + sig);
    DETAIL(r, "killed by SIG%s", name != NULL ? name : "?");
    if (sig == SIGSYS) {
        r->termination.cause = HUSK_CAUSE_SECCOMP;
        DETAIL(r, "made a system call that no program in a box may make");
    } else if (sig == SIGXFSZ) {
        r->termination.cause = HUSK_CAUSE_DISK;
        r->status = HUSK_FAILED;
        limit_size(r, "disk", run->limits.disk_bytes);
    }
}

static bool is_disk_full(const struct launcher_usage *u)
{
    return u->disk_free < DISK_FULL_BELOW || u->inodes_free == 0;
}

static void end_by_exit(const struct run *run, int code)
{
    struct husk_result *r = run->result;

    end(r, code == 0 ? HUSK_COMPLETED : HUSK_FAILED, HUSK_CAUSE_EXIT, code);
    if (code == 0) {
        return;
    }
    DETAIL(r, "exit code %d", code);
    if (is_disk_full(&run->guest->usage)) {
        r->termination.cause = HUSK_CAUSE_DISK;
        DETAIL(r, "exit code %d with %s", code,
               run->guest->usage.inodes_free == 0 ? "no file left to create" : "the disk full");
        if (run->guest->usage.inodes_free == 0) {
            LIMIT(r, "inodes %" PRIu32, run->limits.inodes);
        } else {
            limit_size(r, "disk", run->limits.disk_bytes);
        }
    }
}

static void end_by_memory(const struct run *run, const char *how)
{
    struct husk_result *r = run->result;

    end(r, HUSK_MEMORY_EXCEEDED, HUSK_CAUSE_OOM, EXIT_OOM);
    DETAIL(r, "%s", how);
    limit_size(r, "memory",
               run->limits.process_bytes != 0 ? run->limits.process_bytes
                                              : run->limits.memory_bytes);
}

/* It had us hold too much: by its own bound, or because all boxes together did and it had most. */
static void end_by_budget(const struct run *run)
{
    const struct budget_share *s = &run->guest->share;
    struct husk_result *r = run->result;

    end(r, HUSK_FAILED, HUSK_CAUSE_OUTPUT_LIMIT, EXIT_FLOOD);
    if (s->losses != run->losses) {
        DETAIL(r, "its frames held the most of the memory that all boxes share, and that ran out");
        limit_size(r, "frames of all boxes", s->of->max);
    } else {
        DETAIL(r, "its frames are larger than may be held for it: half of its memory limit,"
                  " or what all boxes share");
        limit_size(r, "frames", s->of->max != 0 ? MIN(s->max, s->of->max) : s->max);
    }
}

static void end_by_timeout(const struct run *run)
{
    struct husk_result *r = run->result;

    end(r, HUSK_TIMEOUT, HUSK_CAUSE_TIMEOUT, EXIT_TIMEOUT);
    DETAIL(r, "still running when its time was up");
    LIMIT(r, "timeout %" PRIu64 " ms", run->limits.timeout_ms);
}

/* The box is gone without a DONE frame: only the kernel's word counts. */
static void end_by_facts(const struct run *run)
{
    const struct guest *g = run->guest;
    struct husk_result *r = run->result;

    if (g->end == LAUNCHER_END_TIMEOUT) {
        end_by_timeout(run);
    } else if (g->end == LAUNCHER_END_OOM) {
        end_by_memory(run, "the kernel killed it for its memory");
    } else if (g->end == LAUNCHER_END_ZYGOTE) {
        end(r, HUSK_CRASHED, HUSK_CAUSE_INTERNAL, EXIT_INTERNAL);
        DETAIL(r, "the template's zygote died");
    } else if (WIFSIGNALED(g->wait_status)) {
        end_by_signal(run, WTERMSIG(g->wait_status));
    } else {
        end_by_exit(run, WEXITSTATUS(g->wait_status));
    }
}

static void end_by_protocol(const struct run *run, const char *how)
{
    end(run->result, HUSK_CRASHED, HUSK_CAUSE_INTERNAL, EXIT_INTERNAL);
    DETAIL(run->result, "%s", how);
}

static void decide(const struct run *run, enum run_verdict verdict)
{
    struct husk_result *r = run->result;

    switch (verdict) {
    case RUN_CANCELLED:
        end(r, HUSK_CANCELLED, HUSK_CAUSE_SIGNAL, EXIT_CANCELLED);
        DETAIL(r, "cancelled by the caller");
        break;
    case RUN_FLOODED:
        end(r, HUSK_FAILED, HUSK_CAUSE_OUTPUT_LIMIT, EXIT_FLOOD);
        DETAIL(r, "wrote more than it may");
        limit_size(r, "output", run->limits.output_bytes);
        break;
    case RUN_OVER_BUDGET:
        end_by_budget(run);
        break;
    case RUN_UNFINISHED:
        end_by_protocol(run, "the box began a frame and did not finish it in time");
        break;
    case RUN_BROKE_PROTOCOL:
        end_by_protocol(run, "the box broke the protocol of its control socket");
        break;
    case RUN_TIMED_OUT:
        end_by_timeout(run);
        break;
    case RUN_BY_CLAIM:
        if (run->signal != 0) {
            end_by_signal(run, (int)run->signal);
        } else {
            end_by_exit(run, (int)run->exit_code);
        }
        break;
    case RUN_GOES_ON:
    case RUN_BY_FACTS:
        end_by_facts(run);
        break;
    }
}

/* A killed helper process, or Python noticing first, is the same shortage. */
static void blame_memory(const struct run *run, enum run_verdict verdict)
{
    struct husk_result *r = run->result;
    bool ended_badly = r->status == HUSK_FAILED || r->status == HUSK_CRASHED;
    bool has_reason = verdict == RUN_FLOODED || verdict == RUN_OVER_BUDGET;

    if (ended_badly && !has_reason && run->guest->usage.oom_kills > 0) {
        end_by_memory(run, "the kernel killed a process for its memory");
    } else if (ended_badly && r->error.type != NULL && str_eq(r->error.type, "MemoryError")) {
        end_by_memory(run, "MemoryError");
    }
}

static void take_streams(struct run *run)
{
    struct husk_result *r = run->result;

    r->out_truncated = run->out_total > run->out_kept.len;
    r->err_truncated = run->err_total > run->err_kept.len;
    r->out_len = run->out_kept.len;
    r->err_len = run->err_kept.len;
    r->out = run->out_kept.data != NULL ? TAKE_PTR(run->out_kept.data) : calloc(1, 1);
    r->err = run->err_kept.data != NULL ? TAKE_PTR(run->err_kept.data) : calloc(1, 1);
}

void run_receipt(const struct guest *g, const struct limits *l, bool warm, struct husk_receipt *ret)
{
    const struct launcher_facts *f = &g->facts;

    (void)str_copy(ret->backend, sizeof(ret->backend), backend_name(g->engine->backend));
    (void)str_copy(ret->isolation, sizeof(ret->isolation),
                   f->isolation == LAUNCHER_FULL ? "full" : "userns");
    (void)str_copy(ret->missing, sizeof(ret->missing), f->missing);
    (void)str_copy(ret->namespaces, sizeof(ret->namespaces), "user,mount,pid,net,ipc,uts,cgroup");
    (void)str_copy(ret->seccomp, sizeof(ret->seccomp), f->seccomp);
    (void)str_copy(ret->cgroup, sizeof(ret->cgroup), f->cgroup);
    (void)str_copy(ret->network, sizeof(ret->network), "none");
    ret->landlock_abi = f->landlock_abi;
    ret->id_block_start = f->id_start;
    ret->id_block_size = f->id_count;
    (void)str_copy(ret->template_name, sizeof(ret->template_name), f->base);
    ret->imports = f->imports != 0;
    ret->boxes_checked = f->boxes_checked;
    ret->zygote_age_ms = f->zygote_age_ms;
    ret->warm = warm;
    ret->limits = engine_limits_export(l);
}

void run_conclude(struct run *run, enum run_verdict verdict, double queue_ms, bool warm)
{
    const struct launcher_usage *u = &run->guest->usage;

    decide(run, verdict);
    blame_memory(run, verdict);
    run_give_back(run);
    take_streams(run);
    run_receipt(run->guest, &run->limits, warm, &run->result->receipt);
    run->result->metrics = (struct husk_metrics){
        .duration_ms = (double)(run->ended_ns - run->started_ns) / NS_PER_MS,
        .queue_ms = queue_ms,
        .cpu_time_ms = (double)u->cpu_ns / NS_PER_MS,
        .peak_memory_mb = (double)u->memory_peak / MIB,
        .io_read_bytes = u->io_read,
        .io_write_bytes = u->io_write,
        .processes = (uint32_t)u->processes,
    };
}
