/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor's loop; see supervisor.h.
 *
 * It is in one phase at a time, and five things can happen to it: `steps` says what each means in
 * each phase. At most one time is waited for: that of the next start, or of killing all.
 */
#include "supervisor/supervisor.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "supervisor/child.h"
#include "supervisor/definitions.h"
#include "supervisor/place.h"
#include "supervisor/workers.h"

#define QUICK_DEATH_MS 10000 /* one that dies sooner is started again more slowly each time */
#define PAUSE_MAX_MS 5000
/* Beyond the drain time of requests and that of runs: workers end, files are saved. */
#define END_EXTRA_MS 30000
#define WAIT_TICK_MS 20 /* how often a launcher is looked at that is on its way out */
#define END_TICK_MS 50  /* how often a daemon that does not end is killed again */
/* a daemon whose supervisor was killed closes its sockets within this */
#define LEFT_PATIENCE_MS 2000

enum phase {
    STARTING, /* the first daemon runs, and does not serve yet */
    SERVING,  /* a daemon runs */
    PAUSED,   /* it has ended; the next one is started when due */

    /* On the way out, with a daemon or without: the end is when nobody runs any more. */
    LOST, /* what is needed could not be started; the daemon ends by itself */
    /* Somebody asked for it. Who does not end is killed when due. */
    CUT_SHORT, /* the daemon was told to end, and has never served */
    DRAINING,  /* the daemon was told to end */
    LAST,      /* the daemon saves what another one could not, and is told to end when it serves */
    KILLING,   /* all are killed, again and again */
};

enum event {
    SERVES,
    DAEMON_ENDED,
    LAUNCHER_ENDED,
    ASKED, /* to end */
    DUE,
    EVENTS,
};

struct supervisor {
    struct child_kit kit;
    struct settings settings;
    int signals;
    sigset_t mask_before;
    struct child launcher;
    bool launcher_talks; /* its socket is worth listening to */
    struct definitions definitions;
    struct child daemon;
    struct workers *workers;
    int folder;   /* DATA */
    int pid_file; /* held locked */
    enum phase phase;
    uint64_t due; /* when DUE happens; 0: never */
    uint64_t daemon_started;
    unsigned pause_ms;
    bool failed; /* the first daemon could not start */
};

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

static int start_launcher(struct supervisor *s, struct err *e)
{
    s->launcher_talks = child_start_launcher(&s->kit, &s->launcher, e) == 0;
    return s->launcher_talks ? 0 : -1;
}

static int start_daemon(struct supervisor *s, struct err *e)
{
    s->daemon_started = clock_ms();
    return child_start_daemon(&s->kit, &s->launcher, &s->daemon, e);
}

/* Of one daemon: it drains requests, then runs. */
static uint64_t end_ms(const struct config *c)
{
    return 2 * c->drain_timeout_ms + END_EXTRA_MS;
}

uint64_t supervisor_end_ms(const struct config *c)
{
    return end_ms(c) +
           2 * (uint64_t)END_EXTRA_MS; /* the other one's, and what the launcher takes apart */
}

/* ---- steps; status: as of wait(), of whoever ended ---- */

static void greet(struct supervisor *s, int status)
{
    if (s->kit.o->on_ready != NULL) {
        s->kit.o->on_ready(s->kit.o->user);
    }
    enter(s, s->phase == STARTING ? SERVING : DRAINING, s->due);
}

/* Before anything was served; whoever ended has said why. */
static void give_up(struct supervisor *s, int status)
{
    s->failed = true;
    enter(s, LOST, 0);
}

static void pause_start(struct supervisor *s, int status)
{
    uint64_t lived = clock_ms() - s->daemon_started;

    s->pause_ms = lived > QUICK_DEATH_MS ? 0 : MIN(MAX(s->pause_ms * 2, 50u), PAUSE_MAX_MS);
    enter(s, PAUSED, clock_ms() + s->pause_ms);
    log_error("daemon_ended", "status=%d; started again in %u ms%s", status, s->pause_ms,
              s->launcher.pid > 0 ? ", what runs in boxes goes on" : "");
}

static void start_next(struct supervisor *s, int status)
{
    bool has_launcher = s->launcher.pid > 0;
    struct err e = {0};

    enter(s, SERVING, 0);
    if (!has_launcher && start_launcher(s, &e) < 0) {
        log_error("launcher_not_started", "%s", e.msg);
        enter(s, PAUSED, clock_ms() + PAUSE_MAX_MS);
    } else if (start_daemon(s, &e) < 0) {
        log_error("daemon_not_started", "%s", e.msg);
        if (s->daemon.pid == 0) { /* else its end is near and comes as any other */
            enter(s, PAUSED, clock_ms() + PAUSE_MAX_MS);
        }
    }
}

/*
 * Every box died with it: the daemon says so to its clients and ends, then both begin anew. Not
 * sooner: a launcher that cannot run would be started again without a pause.
 */
static void miss_launcher(struct supervisor *s, int status)
{
    log_error("launcher_ended", "status=%d; started again with the daemon", status);
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
    if (start_daemon(s, &e) < 0) {
        log_error("daemon_not_started", "%s", e.msg);
    }
}

static void save(struct supervisor *s, int status)
{
    start_last(s, clock_ms() + end_ms(s->kit.o->config));
}

/*
 * Files of sessions that changed a moment ago are in their boxes only, and those end with the
 * launcher. If the one who would have saved them was killed, another one does; but not a third.
 */
static void save_instead(struct supervisor *s, int status)
{
    bool saved = WIFEXITED(status) && WEXITSTATUS(status) == 0;

    if (!saved && s->launcher.pid > 0 && clock_ms() < s->due) {
        log_error("daemon_ended", "status=%d on its way out; another one saves files", status);
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

/* What is not here means nothing. */
static void (*const steps[][EVENTS])(struct supervisor *s, int status) = {
    [STARTING] =
        {[SERVES] = greet, [DAEMON_ENDED] = give_up, [LAUNCHER_ENDED] = give_up, [ASKED] = drain},
    [SERVING] = {[DAEMON_ENDED] = pause_start, [LAUNCHER_ENDED] = miss_launcher, [ASKED] = drain},
    [PAUSED] = {[LAUNCHER_ENDED] = miss_launcher, [ASKED] = save, [DUE] = start_next},
    [LOST] = {[ASKED] = kill_all},
    [CUT_SHORT] = {[SERVES] = greet, [ASKED] = kill_all, [DUE] = kill_all},
    [DRAINING] = {[DAEMON_ENDED] = save_instead, [ASKED] = kill_all, [DUE] = kill_all},
    [LAST] = {[SERVES] = end_last, [ASKED] = kill_all, [DUE] = kill_all},
    [KILLING] = {[ASKED] = kill_all, [DUE] = kill_all},
};

static void happen(struct supervisor *s, enum event event, int status)
{
    if (steps[s->phase][event] != NULL) {
        steps[s->phase][event](s, status);
    }
}

/* ---- events ---- */

static void on_daemon_end(struct supervisor *s, int status)
{
    s->daemon.pid = 0;
    fd_close(&s->daemon.socket);
    outputs_finish(&s->kit.outputs, OUTPUT_DAEMON);
    /* It has let them finish if it was told to end; else nobody knows what they were at. */
    workers_orphan(s->workers, s->phase > LOST ? SIGTERM : SIGKILL);
    happen(s, DAEMON_ENDED, status);
}

static void on_launcher_end(struct supervisor *s, int status)
{
    s->launcher.pid = 0;
    fd_close(&s->launcher.socket);
    definitions_drop(&s->definitions);
    outputs_finish(&s->kit.outputs, OUTPUT_LAUNCHER);
    happen(s, LAUNCHER_ENDED, status);
}

static void reap(struct supervisor *s)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == s->daemon.pid) {
            on_daemon_end(s, status);
        } else if (pid == s->launcher.pid) {
            on_launcher_end(s, status);
        } else {
            (void)workers_reap(s->workers, pid, status);
        }
    }
}

static void take_signals(struct supervisor *s)
{
    struct signalfd_siginfo info;

    while (read(s->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGCHLD) {
            reap(s);
        } else if (info.ssi_signo == SIGHUP && !isatty(STDIN_FILENO)) {
            settings_read(&s->settings);
        } else {
            happen(s, ASKED, 0);
        }
    }
}

static void hear_daemon(struct supervisor *s)
{
    char msg[64];

    /* Without room for descriptors: it has none to give us. */
    ssize_t n = fd_recv(s->daemon.socket, msg, sizeof(msg), NULL, MSG_DONTWAIT);
    if (n == (ssize_t)sizeof(struct supervisor_ready)) {
        happen(s, SERVES, 0);
    } else if (n == (ssize_t)sizeof(struct supervisor_reread)) {
        settings_read(&s->settings);
    } else if (n > 0) {
        workers_hear(s->workers, s->daemon.socket, msg, (size_t)n);
    } else if (n == -EMSGSIZE || n == -EBADMSG) {
        log_error("daemon_message_refused", "%s", strerror((int)-n));
    } else if (n != -EAGAIN && n != -EINTR) {
        fd_close(&s->daemon.socket); /* its end follows */
    }
}

static int timeout(const struct supervisor *s)
{
    uint64_t now = clock_ms();

    return s->due == 0 ? -1 : s->due > now ? (int)(s->due - now) : 0;
}

enum { AT_SIGNALS, AT_DAEMON, AT_LAUNCHER, AT_OUTPUTS, POLLED = AT_OUTPUTS + OUTPUTS_POLLED };

static void loop(struct supervisor *s)
{
    struct pollfd p[POLLED];

    while (s->phase < LOST || s->daemon.pid > 0 || workers_any(s->workers)) {
        bool owes = workers_owe(s->workers) || s->settings.owed;
        short wanted = owes ? POLLIN | POLLOUT : POLLIN;

        p[AT_SIGNALS] = (struct pollfd){.fd = s->signals, .events = POLLIN};
        p[AT_DAEMON] = (struct pollfd){.fd = s->daemon.socket, .events = wanted};
        p[AT_LAUNCHER] =
            (struct pollfd){.fd = s->launcher_talks ? s->launcher.socket : -1,
                            .events = definitions_owe(&s->definitions) ? POLLOUT : POLLIN};
        outputs_poll(&s->kit.outputs, p + AT_OUTPUTS);
        (void)poll(p, POLLED, timeout(s));
        outputs_pump(&s->kit.outputs, p + AT_OUTPUTS); /* first: it was said before what follows */
        if (p[AT_SIGNALS].revents != 0) {
            take_signals(s);
        }
        if (s->daemon.socket >= 0 && (p[AT_DAEMON].revents & ~POLLOUT) != 0) {
            hear_daemon(s);
        }
        if (s->launcher.socket >= 0 && p[AT_LAUNCHER].revents != 0) {
            definitions_tell(&s->definitions, s->launcher.socket);
            /* One that hangs up is about to end; its end is heard of by signal. */
            s->launcher_talks = definitions_serve(&s->definitions, s->kit.o, s->launcher.socket);
        }
        if (s->daemon.socket >= 0) {
            workers_tell(s->workers, s->daemon.socket);
            settings_tell(&s->settings, s->daemon.socket);
        }
        if (s->due != 0 && clock_ms() >= s->due) {
            happen(s, DUE, 0);
        }
    }
}

/* ---- life ---- */

static int block_signals(struct supervisor *s, struct err *e)
{
    sigset_t mask;

    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGINT);
    sigaddset(&mask, SIGHUP);
    sigprocmask(SIG_BLOCK, &mask, &s->mask_before);
    /* Nobody reads our log any more: that must not end us. Children have all signals reset. */
    sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    s->signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    return s->signals < 0 ? err_sys(e, errno, "signalfd") : 0;
}

/* It ends by itself, with everything it made. One that has much to say must not wait for us. */
static void end_launcher(struct supervisor *s)
{
    struct pollfd p[OUTPUTS_POLLED];
    uint64_t until = clock_ms() + END_EXTRA_MS;

    fd_close(&s->launcher.socket);
    while (s->launcher.pid > 0 && waitpid(s->launcher.pid, NULL, WNOHANG) == 0) {
        if (clock_ms() >= until) {
            kill(s->launcher.pid, SIGKILL); /* its guard cleans up */
        }
        outputs_poll(&s->kit.outputs, p);
        (void)poll(p, OUTPUTS_POLLED, WAIT_TICK_MS);
        outputs_pump(&s->kit.outputs, p);
    }
}

static int open_place(struct supervisor *s, bool *ret_was_left, struct err *e)
{
    const struct supervisor_options *o = s->kit.o;

    s->folder = place_open(o->config, e);
    if (s->folder < 0) {
        return -1;
    }
    s->pid_file = place_take(s->folder, o->config, ret_was_left, e);
    if (s->pid_file < 0) {
        return -1;
    }
    s->settings.folder = s->folder;
    settings_save(&s->settings);
    return outputs_open(&s->kit.outputs, o->config, o->is_detached ? s->folder : -1, e);
}

static int open_workers(struct supervisor *s, struct err *e)
{
    const struct supervisor_options *o = s->kit.o;
    struct workers_options options = {.config = o->config,
                                      .daemon = o->daemon,
                                      .plan = o->plan,
                                      .output = outputs_end_of(&s->kit.outputs, OUTPUT_WORKERS)};

    if (workers_open(&options, &s->workers, e) < 0) {
        return -1;
    }
    s->kit.plan = workers_plan(s->workers);
    return 0;
}

/* In this order: nothing is made or changed before the folder is ours alone. */
static int begin(struct supervisor *s, struct err *e)
{
    const struct config *c = s->kit.o->config;
    const struct account *account = &s->kit.account;
    bool was_left = false;

    return account_find(c, &s->kit.account, e) < 0 || open_place(s, &was_left, e) < 0 ||
                   listeners_open(c, account->uid, account->gid, was_left ? LEFT_PATIENCE_MS : 0,
                                  &s->kit.listeners, e) < 0 ||
                   block_signals(s, e) < 0 || open_workers(s, e) < 0 || start_launcher(s, e) < 0 ||
                   start_daemon(s, e) < 0
               ? -1
               : 0;
}

static void end_all(struct supervisor *s)
{
    if (s->daemon.pid > 0) {
        kill(s->daemon.pid, SIGKILL);
        (void)waitpid(s->daemon.pid, NULL, 0);
    }
    workers_close(s->workers);
    definitions_drop(&s->definitions);
    end_launcher(s);
    outputs_close(&s->kit.outputs);
    if (s->kit.listeners.n > 0) {
        listeners_close(&s->kit.listeners, s->kit.o->config);
    }
    if (s->pid_file >= 0) {
        place_leave(s->folder, s->pid_file);
    }
    fd_close(&s->folder);
    fd_close(&s->daemon.socket);
    if (s->signals >= 0) {
        fd_close(&s->signals);
        sigprocmask(SIG_SETMASK, &s->mask_before, NULL);
    }
}

int supervisor_run(const struct supervisor_options *options, struct err *e)
{
    struct supervisor *s = calloc(1, sizeof(*s));
    int r = -1;

    if (s == NULL) {
        return err_sys(e, ENOMEM, "start the server");
    }
    s->kit.o = options;
    s->kit.settings = &s->settings;
    s->settings.o = options;
    s->signals = s->folder = s->pid_file = s->launcher.socket = s->daemon.socket = -1;
    if (begin(s, e) == 0) {
        loop(s);
        r = s->failed ? err_set(e, ERR_SYSTEM, "the server could not start") : 0;
    }
    end_all(s);
    free(s);
    return r;
}
