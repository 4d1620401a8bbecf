/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the supervisor does: `steps` has a function for each event in each phase; see
 * supervisor_impl.h. At most one time is waited for: that of the next start, of the verdict of the
 * first daemon, or of killing all.
 */
#include <sys/wait.h>

#include "base/clock.h"
#include "base/log.h"
#include "supervisor/supervisor_impl.h"

#define QUICK_DEATH_MS 10000 /* after a shorter life the pause before a restart doubles */
#define PAUSE_MAX_MS 5000
#define END_TICK_MS 50    /* how often a daemon that does not end is killed again */
#define VERDICT_MS 120000 /* how long the first daemon may take to say whether programs run */

static void enter(struct supervisor *s, enum phase phase, uint64_t due)
{
    s->phase = phase;
    s->due = due;
}

static void tell_daemon(const struct supervisor *s, int signum)
{
    if (s->daemon.pid > 0) {
        kill(s->daemon.pid, signum);
    }
}

int supervisor_start_launcher(struct supervisor *s, struct err *e)
{
    s->launcher_talks = child_start_launcher(&s->kit, &s->launcher, e) == 0;
    return s->launcher_talks ? 0 : -1;
}

int supervisor_start_daemon(struct supervisor *s, struct err *e)
{
    s->daemon_started = clock_ms();
    return child_start_daemon(&s->kit, &s->launcher, &s->daemon, e);
}

/* One daemon drains requests, then runs. */
static uint64_t end_ms(const struct config *c)
{
    return 2 * c->drain_timeout_ms + END_EXTRA_MS;
}

uint64_t supervisor_end_ms(const struct config *c)
{
    /* Twice more: for a daemon of phase LAST, and for the launcher. */
    return end_ms(c) + 2 * (uint64_t)END_EXTRA_MS;
}

/* ---- steps ---- */

/* Until husk is ready, the daemon owes a verdict. */
static uint64_t verdict_due(const struct supervisor *s)
{
    return s->greeted ? 0 : clock_ms() + VERDICT_MS;
}

static void serve(struct supervisor *s, int status)
{
    enter(s, SERVING, verdict_due(s));
}

/* Of a restarted daemon nothing is reported: the server was ready before. */
static void greet(struct supervisor *s, int status)
{
    if (!s->greeted && s->kit.o->on_ready != NULL) {
        s->kit.o->on_ready(s->kit.o->user);
    }
    s->greeted = true;
    if (s->phase == SERVING) {
        s->due = 0;
    }
}

/* It ends in the usual way, whether it was ready or not. */
static void serve_cut_short(struct supervisor *s, int status)
{
    greet(s, status);
    enter(s, DRAINING, s->due);
}

/* Nothing was served yet. The process that ended has logged why. */
static void give_up(struct supervisor *s, int status)
{
    s->failed = true;
    enter(s, LOST, 0);
}

/* A server that was ready goes on: it may recover, and its clients can read what they have. */
static void refuse(struct supervisor *s, int status)
{
    if (!s->greeted) {
        s->cannot_run = true;
        enter(s, LOST, clock_ms() + end_ms(s->kit.o->config));
        tell_daemon(s, SIGTERM);
    }
}

static void miss_verdict(struct supervisor *s, int status)
{
    log_error("no_verdict", "huskd has not said within %d s whether programs run",
              VERDICT_MS / 1000);
    refuse(s, status);
}

static void pause_start(struct supervisor *s, int status)
{
    uint64_t lived = clock_ms() - s->daemon_started;

    s->pause_ms = lived > QUICK_DEATH_MS ? 0 : MIN(MAX(s->pause_ms * 2, 50u), PAUSE_MAX_MS);
    enter(s, PAUSED, clock_ms() + s->pause_ms);
    log_error("daemon_ended", "status=%d; restart in %u ms%s", status, s->pause_ms,
              s->launcher.pid > 0 ? ", programs in boxes keep running" : "");
}

static void start_next(struct supervisor *s, int status)
{
    bool has_launcher = s->launcher.pid > 0;
    struct err e = {0};

    enter(s, SERVING, verdict_due(s));
    if (!has_launcher && supervisor_start_launcher(s, &e) < 0) {
        log_error("launcher_not_started", "%s", e.msg);
        enter(s, PAUSED, clock_ms() + PAUSE_MAX_MS);
    } else if (supervisor_start_daemon(s, &e) < 0) {
        log_error("daemon_not_started", "%s", e.msg);
        if (s->daemon.pid == 0) { /* else it is about to end, which is an event */
            enter(s, PAUSED, clock_ms() + PAUSE_MAX_MS);
        }
    }
}

/*
 * All boxes died with the launcher. The daemon reports that to its clients and ends; then both are
 * restarted. Restarting the launcher here would have no pause between launchers that cannot run.
 */
static void miss_launcher(struct supervisor *s, int status)
{
    log_error("launcher_ended", "status=%d; restarted with the daemon", status);
}

static void drain(struct supervisor *s, int status)
{
    enter(s, s->phase == STARTING ? CUT_SHORT : DRAINING, clock_ms() + end_ms(s->kit.o->config));
    tell_daemon(s, SIGTERM);
}

static void start_last(struct supervisor *s, uint64_t due)
{
    struct err e = {0};

    enter(s, LAST, due);
    if (supervisor_start_daemon(s, &e) < 0) {
        log_error("daemon_not_started", "%s", e.msg);
    }
}

static void save(struct supervisor *s, int status)
{
    start_last(s, clock_ms() + end_ms(s->kit.o->config));
}

/*
 * Files of sessions that changed a moment ago exist only in the boxes, which end with the launcher.
 * If the daemon is killed before it has saved them, another daemon does; there is no third try.
 */
static void save_instead(struct supervisor *s, int status)
{
    bool saved = WIFEXITED(status) && WEXITSTATUS(status) == 0;

    if (!saved && s->launcher.pid > 0 && clock_ms() < s->due) {
        log_error("daemon_ended",
                  "status=%d before files were saved; starting another one to save them", status);
        start_last(s, s->due + END_EXTRA_MS);
    }
}

static void end_last(struct supervisor *s, int status)
{
    tell_daemon(s, SIGTERM);
}

static void kill_all(struct supervisor *s, int status)
{
    enter(s, KILLING, clock_ms() + END_TICK_MS);
    tell_daemon(s, SIGKILL);
    workers_end(s->workers, SIGKILL);
}

/* The more sessions there are, the longer it takes: only a daemon that stands still is killed. */
static void wait_on(struct supervisor *s, int status)
{
    s->due = MAX(s->due, clock_ms() + END_EXTRA_MS);
}

/* An event that is not listed is ignored. */
static void (*const steps[][EVENTS])(struct supervisor *s, int status) = {
    [STARTING] =
        {[SERVES] = serve, [DAEMON_ENDED] = give_up, [LAUNCHER_ENDED] = give_up, [ASKED] = drain},
    [SERVING] = {[CAN_RUN] = greet,
                 [CANNOT_RUN] = refuse,
                 [DAEMON_ENDED] = pause_start,
                 [LAUNCHER_ENDED] = miss_launcher,
                 [ASKED] = drain,
                 [DUE] = miss_verdict},
    [PAUSED] = {[LAUNCHER_ENDED] = miss_launcher, [ASKED] = save, [DUE] = start_next},
    [LOST] = {[ASKED] = kill_all, [DUE] = kill_all},
    [CUT_SHORT] = {[SERVES] = serve_cut_short, [ASKED] = kill_all, [DUE] = kill_all},
    [DRAINING] =
        {[SAVED] = wait_on, [DAEMON_ENDED] = save_instead, [ASKED] = kill_all, [DUE] = kill_all},
    [LAST] = {[SERVES] = end_last, [SAVED] = wait_on, [ASKED] = kill_all, [DUE] = kill_all},
    [KILLING] = {[ASKED] = kill_all, [DUE] = kill_all},
};

void supervisor_happen(struct supervisor *s, enum event event, int status)
{
    if (steps[s->phase][event] != NULL) {
        steps[s->phase][event](s, status);
    }
}
