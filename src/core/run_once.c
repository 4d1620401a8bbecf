/* SPDX-License-Identifier: Apache-2.0 */
/* engine_run(): one program in one single-use box; see core.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/rand.h"
#include "base/str.h"
#include "base/units.h"
#include "core/run.h"
#include "core/run_frames.h"

#define FRAME_SLACK 65536
#define UNARMED_MS 2 /* how long a run may last before the launcher is told its deadline */

static void note_begun(const struct run *run, bool begun)
{
    if (run->hooks != NULL && run->hooks->begun != NULL) {
        *run->hooks->begun = begun;
    }
}

static int start_run(struct run *run, struct err *e)
{
    AUTO_BUF struct buf frame = BUF_INIT(FRAME_TO_BOX_MAX + FRAME_SLACK);

    rand_bytes(run->token, sizeof(run->token));
    if (run_frame(run->spec, &run->limits, run->token, &frame, e) < 0) {
        return -1;
    }
    run->started_ns = clock_ns();
    note_begun(run, true);
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
    run->phase = run->guest->state == GUEST_READY ? RUN_RUNNING : RUN_STARTING;
    run->losses = run->guest->share.losses;
    run->guest->runs++;
    run->held = 0;
    run->in = take_fd(&run->guest->in);
    run->out = run->guest->out;
    run->err = run->guest->err;
}

/* The answer is gathered. Only then is it known whether the box was ever ready. */
static int conclude(struct run *run, double queue_ms, bool warm, struct err *e)
{
    struct guest *g = run->guest;

    if (run->phase == RUN_STARTING && guest_is_unborn(g)) {
        note_begun(run, false);
        return GUEST_UNBORN;
    }
    if (run->phase == RUN_FAILED) {
        note_begun(run, false); /* a box that cannot isolate itself reads no code */
        return err_set(e, ERR_ISOLATION, "%s", run->failure);
    }
    if (!g->exited &&
        guest_finish(run->engine, g, run->exit_code != 0 || run->signal != 0, e) < 0) {
        return -1;
    }
    if (g->exited && g->end == LAUNCHER_END_ZYGOTE && g->refusal.code != ERR_NONE) {
        *e = g->refusal; /* never born: that is our failure, not the program's */
        note_begun(run, false);
        return -1;
    }
    enum run_verdict known = run->phase == RUN_DONE ? RUN_BY_CLAIM : RUN_BY_FACTS;
    run_conclude(run, run->stopped != RUN_GOES_ON ? run->stopped : known, queue_ms, warm);
    return 0;
}

struct once {
    struct run run;
    uint64_t asked_ns;
    const struct guest *parked; /* taken from the pool; NULL: none */
};

static void show_guest(const struct run *run, const struct guest *g)
{
    if (run->hooks != NULL && run->hooks->guest != NULL) {
        *run->hooks->guest = g;
    }
}

static int run_in(void *user, struct guest *g, struct err *e)
{
    struct once *once = user;
    struct run *run = &once->run;
    double queue_ms = (double)(clock_ns() - once->asked_ns) / NS_PER_MS;
    bool warm = g == once->parked;

    run->guest = g;
    if (run->hooks != NULL && run->hooks->tag != NULL) {
        (void)str_copy(g->used_by, sizeof(g->used_by), run->hooks->tag);
        run->hooks->on_box(run->hooks->user, guest_name(g));
    }
    show_guest(run, g);
    take_ends(run);
    int r = start_run(run, e);
    if (r < 0 && e->sys_errno == EPIPE) {
        r = 0; /* it ended before it could take the code: the result is how it ended */
    }
    if (r == 0) {
        r = drive(run, warm, e);
    }
    show_guest(run, NULL);
    fd_close(&run->in);
    r = r < 0 ? -1 : conclude(run, queue_ms, warm, e);
    if (r == GUEST_UNBORN) {
        run->guest = NULL;
        run->channel_lost = false;
        run->ended_ns = 0;
    }
    return r;
}

/* In a parked box that fits, or else in a new one, which starts with its deadline armed. */
static int run_in_guest(struct once *once, struct live_template *live, struct err *e)
{
    struct engine *engine = once->run.engine;
    const struct limits *limits = &once->run.limits;
    const struct guest_options options = {.limits = *limits, .deadline_ms = limits->timeout_ms};
    struct guest_use use = {.fn = run_in, .user = once};

    if (engine_dispatch(engine, e) < 0) { /* boxes that died while parked leave the pool here */
        return -1;
    }
    once->parked = use.parked = pool_take(engine, live, LAUNCHER_ONCE, limits);
    return guest_with(engine, live, &options, &use, e);
}

int engine_run(struct engine *engine, const struct husk_spec *spec, const struct run_hooks *hooks,
               struct husk_result **ret, struct err *e)
{
    const char *name = spec->template_name != NULL ? spec->template_name : "python";
    struct once once = {.run = {.engine = engine, .spec = spec, .hooks = hooks, .in = -1},
                        .asked_ns = clock_ns()};
    struct run *run = &once.run;
    struct live_template *live;
    int r = -1;

    if (run_check(spec, e) < 0) {
        return -1;
    }
    /* A server has no use for a zygote without preloads once its box is gone. */
    live = spec->n_mounts > 0 || (spec->no_pool && engine->attached)
               ? live_one_off(engine, name, !spec->no_pool, spec->mounts, spec->n_mounts, e)
               : live_get(engine, name, !spec->no_pool, e);
    if (live == NULL) {
        return -1;
    }
    live->users++;
    if (run_check_language(spec, live->def.info.language, name, e) == 0 &&
        engine_limits(&spec->limits, &live->def.info.limits, &run->limits, e) == 0 &&
        run_init(run, e) == 0) {
        r = run_in_guest(&once, live, e);
    }
    if (r == 0) {
        *ret = TAKE_PTR(run->result);
    }
    guest_retire(engine, run->guest);
    run_release(run);
    live->users--;
    if (live->one_off) {
        live_close(engine, live);
    } else if (r == 0) {
        pool_taken(engine, live); /* the answer is ready */
    }
    return r;
}
