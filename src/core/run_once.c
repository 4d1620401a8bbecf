/* SPDX-License-Identifier: Apache-2.0 */
/* engine_run(): one program in one single-use box; see core.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/rand.h"
#include "base/units.h"
#include "core/run.h"
#include "core/run_frames.h"

#define FRAME_SLACK 65536
#define LOST_UNBORN 1
#define UNARMED_MS 2 /* how long a run may last before the launcher is told its deadline */

/* A new box that starts with its deadline armed. */
static struct guest *new_guest(struct engine *engine, struct live_template *live,
                               const struct limits *limits, struct err *e)
{
    struct guest_options options = {.limits = *limits, .deadline_ms = limits->timeout_ms};

    return guest_start(engine, live, &options, e);
}

/* A parked box if there is one that fits, else a new one. */
static struct guest *get_guest(struct engine *engine, struct live_template *live,
                               const struct limits *limits, bool *warm, struct err *e)
{
    if (engine_dispatch(engine, e) < 0) { /* boxes that died while parked leave the pool here */
        return NULL;
    }
    struct guest *g = pool_take(engine, live, LAUNCHER_ONCE, limits);
    *warm = g != NULL;
    return g != NULL ? g : new_guest(engine, live, limits, e);
}

static int start_run(struct run *run, struct err *e)
{
    AUTO_BUF struct buf frame = BUF_INIT(FRAME_TO_BOX_MAX + FRAME_SLACK);

    rand_bytes(run->token, sizeof(run->token));
    if (run_frame(run->spec, &run->limits, run->token, &frame, e) < 0) {
        return -1;
    }
    run->started_ns = clock_ns();
    /* A new box reads this as soon as it is ready: no need to wait for that. */
    return channel_send(run->channel, &frame, NULL, 0, e);
}

/*
 * A parked box has no deadline yet. Most runs are over before the launcher would have heard of
 * theirs, so it is told only of those that are not; should this process die first, the launcher
 * ends all its boxes anyway. Of a cool box it hears at once: while the box gets its memory, the
 * launcher opens the counters that it will be asked for.
 */
static int drive(struct run *run, bool warm, struct err *e)
{
    uint64_t deadline_ms = run->limits.timeout_ms;

    if (warm && !run->guest->cool && run->limits.timeout_ms > UNARMED_MS) {
        int r = run_drive(run, UNARMED_MS, e);
        if (r != 0) {
            return r;
        }
        deadline_ms -= UNARMED_MS;
    }
    if (warm && backend_arm(run->engine->backend, run->guest->box_id, deadline_ms, e) < 0) {
        return -1;
    }
    return run_drive(run, -1, e);
}

static void take_ends(struct run *run)
{
    guest_unwatch(run->engine, run->guest);
    run->channel = &run->guest->control;
    run->ready = run->guest->state == GUEST_READY;
    run->losses = run->guest->share.losses;
    run->guest->runs++;
    run->held = 0;
    run->in = take_fd(&run->guest->in);
    run->out = run->guest->out;
    run->err = run->guest->err;
}

/*
 * Its zygote died before the box was ready, so no code has run: what cannot be done twice was not
 * done once.
 */
static bool is_lost_unborn(const struct run *run)
{
    return run->guest->exited && run->guest->end == LAUNCHER_END_ZYGOTE && !run->ready;
}

/* A new box for a run whose first one was never born. */
static struct guest *again(struct engine *engine, struct run *run, struct live_template *live,
                           struct err *e)
{
    guest_free(engine, run->guest);
    run->channel_lost = false;
    run->ended_ns = 0;
    return live->one_off ? NULL : new_guest(engine, live, &run->limits, e);
}

/* The box is made, the code is handed over, the answer is gathered. 0, -1, or LOST_UNBORN. */
static int run_in(struct run *run, double queue_ms, bool warm, struct err *e)
{
    take_ends(run);
    int r = start_run(run, e);
    if (r < 0 && e->sys_errno == EPIPE) {
        /*
         * It ended before it could take the code; what the launcher says about that is the result.
         */
        r = 0;
    }
    if (r == 0) {
        r = drive(run, warm, e);
    }
    fd_close(&run->in);
    if (r < 0) {
        return -1;
    }
    if (is_lost_unborn(run) && run->guest->refusal.code == ERR_NONE) {
        return LOST_UNBORN;
    }
    if (run->failure[0] != '\0') {
        return err_set(e, ERR_ISOLATION, "%s", run->failure);
    }
    if (!run->guest->exited &&
        guest_finish(run->engine, run->guest, run->exit_code != 0 || run->signal != 0, e) < 0) {
        return -1;
    }
    if (run->guest->exited && run->guest->end == LAUNCHER_END_ZYGOTE &&
        run->guest->refusal.code != ERR_NONE) {
        *e = run->guest->refusal; /* never born: that is our failure, not the program's */
        return -1;
    }
    run_conclude(run, queue_ms, warm);
    return 0;
}

int engine_run(struct engine *engine, const struct husk_spec *spec, const struct run_hooks *hooks,
               struct husk_result **ret, struct err *e)
{
    const char *name = spec->template_name != NULL ? spec->template_name : "python";
    struct run run = {.engine = engine, .spec = spec, .hooks = hooks, .in = -1};
    struct live_template *live;
    uint64_t asked = clock_ns();
    bool warm = false;
    int r = -1;

    if (run_check(spec, e) < 0) {
        return -1;
    }
    live = spec->n_mounts > 0
               ? live_one_off(engine, name, !spec->no_pool, spec->mounts, spec->n_mounts, e)
               : live_get(engine, name, !spec->no_pool, e);
    if (live == NULL) {
        return -1;
    }
    live->users++;
    if (run_check_language(spec, live->def.info.language, name, e) == 0 &&
        engine_limits(&spec->limits, &live->def.info.limits, &run.limits, e) == 0 &&
        run_init(&run, e) == 0) {
        run.guest = get_guest(engine, live, &run.limits, &warm, e);
    }
    if (run.guest != NULL) {
        r = run_in(&run, (double)(clock_ns() - asked) / NS_PER_MS, warm, e);
        if (r == LOST_UNBORN && (run.guest = again(engine, &run, live, e)) != NULL) {
            r = run_in(&run, (double)(clock_ns() - asked) / NS_PER_MS, false, e);
        }
        r = r == LOST_UNBORN ? err_set(e, ERR_TEMPLATE, "the zygote of %s died twice", name) : r;
    }
    if (r == 0) {
        *ret = TAKE_PTR(run.result);
    }
    guest_retire(engine, run.guest);
    run_release(&run);
    live->users--;
    if (live->one_off) {
        live_close(engine, live);
    } else if (r == 0) {
        pool_taken(engine, live); /* the answer is ready */
    }
    return r;
}
