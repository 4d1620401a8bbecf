/* SPDX-License-Identifier: Apache-2.0 */
/* The supervisor's loop; see supervisor.h. */
#include "supervisor/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "daemon/supervisor_msg.h"
#include "supervisor/child.h"
#include "supervisor/workers.h"
#include "wire/launcher_msg.h"

#define QUICK_DEATH_MS 10000 /* one that dies sooner is started again more slowly each time */
#define PAUSE_MAX_MS 5000
/* Beyond the drain time of requests and that of runs: workers end, files are saved. */
#define END_EXTRA_MS 30000
#define END_TICK_MS 50 /* how often a daemon that does not end is killed again */
#define LEFT_PATIENCE_MS                                                                           \
    2000 /* a daemon whose supervisor was killed closes its sockets within this */

struct supervisor {
    const struct supervisor_options *o;
    struct account account; /* of the daemon */
    struct listeners listeners;
    int signals;
    sigset_t old_mask;
    pid_t launcher;
    int launcher_socket;
    pid_t daemon;
    int daemon_socket;
    struct workers *workers;
    uint64_t daemon_started;
    uint64_t start_at; /* when the next daemon is due; 0: one runs */
    unsigned pause_ms;
    bool stopping;
    bool
        saving; /* stopping, by a daemon that took the place of one that was killed on its way out */
    uint64_t kill_at; /* when a daemon that does not end is killed */
    bool was_ready;
    bool failed; /* the first daemon could not start */
};

/* ---- children ---- */

static int pair(int *ours, int *theirs, struct err *e)
{
    int p[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, p) < 0) {
        return err_sys(e, errno, "socketpair");
    }
    *ours = p[0];
    *theirs = p[1];
    return 0;
}

/*
 * In the child: descriptor 3 and nothing else, no signal blocked, dies with us. That we died before
 * that was arranged shows in our number; 1 alone says nothing: it is ours in a container.
 */
static void become(const struct supervisor *s, pid_t parent, int socket, bool drop,
                   char *const *argv)
{
    prctl(PR_SET_PDEATHSIG, drop ? SIGTERM : 0, 0, 0, 0);
    if (getppid() != parent) {
        _exit(127);
    }
    if (dup2(socket, SUPERVISOR_FD) < 0 || close_range(SUPERVISOR_FD + 1, ~0U, 0) < 0) {
        _exit(127);
    }
    if (drop && s->account.switch_to &&
        (setgroups(0, NULL) < 0 || setgid(s->account.gid) < 0 || setuid(s->account.uid) < 0)) {
        _exit(127);
    }
    setsid(); /* a terminal's Ctrl-C is for us; we tell them */
    sigprocmask(SIG_SETMASK, &s->old_mask, NULL);
    char **environment = daemon_environment();
    if (environment != NULL) {
        execve(argv[0], argv, environment);
    }
    static const char message[] =
        "husk: cannot start a program of its own: is it readable for the daemon's account?\n";
    (void)!write(STDERR_FILENO, message, sizeof(message) - 1);
    _exit(127);
}

static int start_launcher(struct supervisor *s, struct err *e)
{
    char *argv[] = {drop_const(s->o->launcher), "--supervised", NULL};
    pid_t self = getpid();
    int theirs = -1;

    if (pair(&s->launcher_socket, &theirs, e) < 0) {
        return -1;
    }
    s->launcher = fork();
    if (s->launcher == 0) {
        become(s, self, theirs, false, argv);
    }
    fd_close(&theirs);
    return s->launcher < 0 ? err_sys(e, errno, "start the launcher") : 0;
}

/* A new connection to the launcher for a new daemon. */
static int connect_launcher(struct supervisor *s, int *ret, struct err *e)
{
    struct launcher_newcomer newcomer = {.uid = s->account.uid};
    int theirs = -1;

    if (pair(ret, &theirs, e) < 0) {
        return -1;
    }
    ssize_t n = fd_send(s->launcher_socket, &newcomer, sizeof(newcomer), &theirs, 1, 0);
    fd_close(&theirs);
    if (n != (ssize_t)sizeof(newcomer)) {
        fd_close(ret);
        return err_set(e, ERR_LAUNCHER, "husk-launcher is gone");
    }
    return 0;
}

static int send_start(struct supervisor *s, int launcher, struct err *e)
{
    struct supervisor_start start = {.n_listeners = (uint32_t)s->listeners.n};
    int fds[1 + LISTENERS_MAX] = {launcher};

    memcpy(fds + 1, s->listeners.fds, s->listeners.n * sizeof(int));
    ssize_t n = fd_send(s->daemon_socket, &start, sizeof(start), fds, s->listeners.n + 1, 0);
    return n == (ssize_t)sizeof(start) ? 0 : err_set(e, ERR_SYSTEM, "huskd did not start");
}

static int start_daemon(struct supervisor *s, struct err *e)
{
    AUTO_BUF struct buf text = BUF_INIT((size_t)1 << 20);
    char *argv[DAEMON_ARGS_MAX] = {drop_const(s->o->daemon)};
    pid_t self = getpid();
    int theirs = -1;

    if (daemon_args(s->o->config, &text, argv, e) < 0 || pair(&s->daemon_socket, &theirs, e) < 0) {
        return -1;
    }
    s->daemon = fork();
    if (s->daemon == 0) {
        become(s, self, theirs, true, argv);
    }
    fd_close(&theirs);
    if (s->daemon < 0) {
        return err_sys(e, errno, "start huskd");
    }
    s->daemon_started = clock_ms();
    s->start_at = 0;
    int launcher = -1;
    int r = connect_launcher(s, &launcher, e);
    if (r == 0) {
        r = send_start(s, launcher, e);
        fd_close(&launcher);
    }
    if (r < 0) {
        fd_close(&s->daemon_socket); /* it ends by that */
    }
    return r;
}

/* ---- events ---- */

/*
 * Files of sessions that changed a moment ago are in their boxes only, and those end with the launcher. If the one who would
 * have saved them was killed, another one does; but not a third.
 */
static bool wants_saver(const struct supervisor *s, int status)
{
    return s->was_ready && !s->saving && s->launcher > 0 && s->kill_at != 0 &&
           clock_ms() < s->kill_at && !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void on_daemon_end(struct supervisor *s, int status)
{
    uint64_t lived = clock_ms() - s->daemon_started;

    s->daemon = 0;
    fd_close(&s->daemon_socket);
    /* It has let them finish if it was told to end; else nobody knows what they were at. */
    workers_orphan(s->workers, s->stopping && s->kill_at != 0 ? SIGTERM : SIGKILL);
    if (s->stopping) {
        s->saving = wants_saver(s, status);
        if (s->saving) {
            s->start_at = clock_ms();
            s->kill_at += END_EXTRA_MS;
            log_error("daemon_ended", "status=%d on its way out; another one saves files", status);
        }
        return;
    }
    if (!s->was_ready) { /* it has said why */
        s->failed = true;
        s->stopping = true;
        return;
    }
    s->pause_ms = lived > QUICK_DEATH_MS ? 0 : MIN(MAX(s->pause_ms * 2, 50u), PAUSE_MAX_MS);
    s->start_at = clock_ms() + s->pause_ms;
    log_error("daemon_ended", "status=%d; started again in %u ms, what runs in boxes goes on",
              status, s->pause_ms);
}

/* Every box died with it: the daemon says so to its clients and ends, then both begin anew. */
static void on_launcher_end(struct supervisor *s, int status)
{
    struct err e = {0};

    s->launcher = 0;
    fd_close(&s->launcher_socket);
    if (s->stopping) {
        s->start_at = 0; /* there is nothing left to save */
        return;
    }
    if (!s->was_ready) {
        s->failed = true;
        s->stopping = true;
        return;
    }
    log_error("launcher_ended", "status=%d; started again", status);
    if (start_launcher(s, &e) < 0) {
        log_error("launcher_not_started", "%s", e.msg);
        s->stopping = true;
        s->start_at = 0;
    }
}

static void reap(struct supervisor *s)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == s->daemon) {
            on_daemon_end(s, status);
        } else if (pid == s->launcher) {
            on_launcher_end(s, status);
        } else {
            (void)workers_reap(s->workers, pid, status);
        }
    }
}

static void end_now(struct supervisor *s)
{
    if (s->daemon > 0) {
        kill(s->daemon, SIGKILL);
    }
    workers_end(s->workers, SIGKILL);
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

static void stop(struct supervisor *s)
{
    bool again = s->stopping;

    s->stopping = true;
    s->kill_at = again ? 1 : clock_ms() + end_ms(s->o->config);
    if (again) { /* asked twice: at once */
        end_now(s);
    } else if (s->daemon > 0) {
        kill(s->daemon, SIGTERM);
    } else if (s->start_at != 0) {
        s->saving = true;
        s->start_at = clock_ms();
    }
}

static void take_signals(struct supervisor *s)
{
    struct signalfd_siginfo info;

    while (read(s->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGCHLD) {
            reap(s);
        } else if (info.ssi_signo == SIGHUP && !isatty(STDIN_FILENO)) {
            if (s->daemon > 0) {
                kill(s->daemon, SIGHUP); /* read the settings again */
            }
        } else {
            stop(s);
        }
    }
}

static void on_daemon_ready(struct supervisor *s)
{
    if (s->o->on_ready != NULL && !s->was_ready) {
        s->o->on_ready(s->o->user);
    }
    s->was_ready = true;
    if (s->saving) {
        kill(s->daemon, SIGTERM);
    }
}

static void hear_daemon(struct supervisor *s)
{
    char msg[64];

    /* Without room for descriptors: it has none to give us. */
    ssize_t n = fd_recv(s->daemon_socket, msg, sizeof(msg), NULL, MSG_DONTWAIT);
    if (n == (ssize_t)sizeof(struct supervisor_ready)) {
        on_daemon_ready(s);
    } else if (n > 0) {
        workers_hear(s->workers, s->daemon_socket, msg, (size_t)n);
    } else if (n == -EMSGSIZE || n == -EBADMSG) {
        log_error("daemon_message_refused", "%s", strerror((int)-n));
    } else if (n != -EAGAIN && n != -EINTR) {
        fd_close(&s->daemon_socket); /* its end follows */
    }
}

static int timeout(const struct supervisor *s)
{
    uint64_t now = clock_ms();
    uint64_t at = s->start_at != 0 ? s->start_at : s->stopping ? s->kill_at : 0;

    return at == 0 ? -1 : at > now ? (int)(at - now) : s->stopping ? END_TICK_MS : 0;
}

static void loop(struct supervisor *s)
{
    struct err e = {0};

    while (!s->stopping || s->daemon > 0 || s->start_at != 0 || workers_any(s->workers)) {
        short wanted = workers_owe(s->workers) ? POLLIN | POLLOUT : POLLIN;
        struct pollfd p[] = {{.fd = s->signals, .events = POLLIN},
                             {.fd = s->daemon_socket, .events = wanted}};
        (void)poll(p, ARRAY_LEN(p), timeout(s));
        if (p[0].revents != 0) {
            take_signals(s);
        }
        if (s->daemon_socket >= 0 && (p[1].revents & ~POLLOUT) != 0) {
            hear_daemon(s);
        }
        if (s->daemon_socket >= 0) {
            workers_tell(s->workers, s->daemon_socket);
        }
        if (s->stopping && s->kill_at != 0 && clock_ms() >= s->kill_at) {
            s->start_at = 0;
            end_now(s);
        }
        if (s->start_at != 0 && clock_ms() >= s->start_at && s->launcher > 0 &&
            start_daemon(s, &e) < 0) {
            log_error("daemon_not_started", "%s", e.msg);
            s->start_at = s->stopping ? 0 : clock_ms() + PAUSE_MAX_MS;
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
    sigprocmask(SIG_BLOCK, &mask, &s->old_mask);
    s->signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    return s->signals < 0 ? err_sys(e, errno, "signalfd") : 0;
}

static void end_launcher(struct supervisor *s)
{
    fd_close(&s->launcher_socket); /* it ends by itself, with everything it made */
    if (s->launcher > 0) {
        (void)waitpid(s->launcher, NULL, 0);
    }
}

int supervisor_run(const struct supervisor_options *options, struct err *e)
{
    struct supervisor s = {.o = options, .signals = -1, .launcher_socket = -1, .daemon_socket = -1};
    const struct config *c = options->config;
    bool was_left = false;
    int place = -1;
    int r = -1;

    if (account_find(c, &s.account, e) == 0 &&
        (place = place_take(c, s.account.uid, s.account.gid, &was_left, e)) >= 0 &&
        listeners_open(c, s.account.uid, s.account.gid, was_left ? LEFT_PATIENCE_MS : 0,
                       &s.listeners, e) == 0 &&
        block_signals(&s, e) == 0 &&
        workers_open(c, options->daemon, &s.old_mask, &s.workers, e) == 0 &&
        start_launcher(&s, e) == 0 && start_daemon(&s, e) == 0) {
        loop(&s);
        r = s.failed ? err_set(e, ERR_SYSTEM, "the server could not start") : 0;
    }
    if (s.daemon > 0) {
        kill(s.daemon, SIGKILL);
        (void)waitpid(s.daemon, NULL, 0);
    }
    workers_close(s.workers);
    end_launcher(&s);
    if (s.listeners.n > 0) {
        listeners_close(&s.listeners, c);
    }
    if (place >= 0) {
        place_leave(c, place);
    }
    fd_close(&s.daemon_socket);
    if (s.signals >= 0) {
        fd_close(&s.signals);
        sigprocmask(SIG_SETMASK, &s.old_mask, NULL);
    }
    return r;
}
