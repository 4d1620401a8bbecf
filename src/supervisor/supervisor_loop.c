/* SPDX-License-Identifier: Apache-2.0 */
/* The supervisor's loop: turns signals, messages and time into events; see supervisor_impl.h. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "supervisor/supervisor_impl.h"

static void on_daemon_end(struct supervisor *s, int status)
{
    s->daemon.pid = 0;
    fd_close(&s->daemon.socket);
    outputs_finish(&s->kit.outputs, OUTPUT_DAEMON);
    /* A daemon that was told to end has let them finish; otherwise their state is unknown. */
    workers_orphan(s->workers, s->phase > LOST ? SIGTERM : SIGKILL);
    supervisor_happen(s, DAEMON_ENDED, status);
}

static void on_launcher_end(struct supervisor *s, int status)
{
    s->launcher.pid = 0;
    fd_close(&s->launcher.socket);
    definitions_drop(&s->definitions);
    outputs_finish(&s->kit.outputs, OUTPUT_LAUNCHER);
    supervisor_happen(s, LAUNCHER_ENDED, status);
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
            supervisor_happen(s, ASKED, 0);
        }
    }
}

static void hear_daemon(struct supervisor *s)
{
    char msg[64];

    /* No room for descriptors: the daemon sends none. */
    ssize_t n = fd_recv(s->daemon.socket, msg, sizeof(msg), NULL, MSG_DONTWAIT);
    if (n == (ssize_t)sizeof(struct supervisor_ready)) {
        supervisor_happen(s, SERVES, 0);
    } else if (n == (ssize_t)sizeof(struct supervisor_verdict)) {
        struct supervisor_verdict verdict;
        memcpy(&verdict, msg, sizeof(verdict));
        supervisor_happen(s, verdict.can_run != 0 ? CAN_RUN : CANNOT_RUN, 0);
    } else if (n == (ssize_t)sizeof(struct supervisor_progress)) {
        supervisor_happen(s, SAVED, 0);
    } else if (n == (ssize_t)sizeof(struct supervisor_reread)) {
        settings_read(&s->settings);
    } else if (n > 0) {
        workers_hear(s->workers, s->daemon.socket, msg, (size_t)n);
    } else if (n == -EMSGSIZE || n == -EBADMSG) {
        log_error("daemon_message_refused", "%s", strerror((int)-n));
    } else if (n != -EAGAIN && n != -EINTR) {
        fd_close(&s->daemon.socket); /* it is about to end */
    }
}

static int timeout(const struct supervisor *s)
{
    uint64_t now = clock_ms();

    return s->due == 0 ? -1 : s->due > now ? (int)(s->due - now) : 0;
}

enum { AT_SIGNALS, AT_DAEMON, AT_LAUNCHER, AT_OUTPUTS, POLLED = AT_OUTPUTS + OUTPUTS_POLLED };

void supervisor_loop(struct supervisor *s)
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
        outputs_pump(&s->kit.outputs, p + AT_OUTPUTS); /* first, so that the log is in order */
        if (p[AT_SIGNALS].revents != 0) {
            take_signals(s);
        }
        if (s->daemon.socket >= 0 && (p[AT_DAEMON].revents & ~POLLOUT) != 0) {
            hear_daemon(s);
        }
        if (s->launcher.socket >= 0 && p[AT_LAUNCHER].revents != 0) {
            definitions_tell(&s->definitions, s->launcher.socket);
            /* A launcher that hangs up is about to end, which SIGCHLD reports. */
            s->launcher_talks = definitions_serve(&s->definitions, s->kit.o, s->launcher.socket);
        }
        if (s->daemon.socket >= 0) {
            workers_tell(s->workers, s->daemon.socket);
            settings_tell(&s->settings, s->daemon.socket);
        }
        if (s->due != 0 && clock_ms() >= s->due) {
            supervisor_happen(s, DUE, 0);
        }
    }
}
