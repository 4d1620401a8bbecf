/* SPDX-License-Identifier: Apache-2.0 */
/* A driver's interpreter: its process, the socket to it, and signals; see driver_impl.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/units.h"
#include "runner/driver_impl.h"
#include "runner/rawfork.h"

#define EXIT_NOT_STARTED 126 /* as in shells */
#define CHUNK 65536
#define SIGNAL_PATIENCE_MS 500u

static volatile sig_atomic_t was_signalled;

static void on_interrupt(int sig)
{
    (void)sig;
    was_signalled = 1;
}

bool driver_was_signalled(void)
{
    return was_signalled != 0;
}

void driver_forget_signal(void)
{
    was_signalled = 0;
}

int driver_watch_signals(struct driver *d)
{
    /* SIGINT is for the interpreter and what it has started; the driver goes on. */
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};
    sigset_t child;

    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    if (sigaction(SIGINT, &action, NULL) < 0 || sigprocmask(SIG_BLOCK, &child, NULL) < 0) {
        return -errno;
    }
    d->signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    return d->signals < 0 ? -errno : 0;
}

/* ---- the process ---- */

/* What Python has set, or we: programs expect none of it. */
static void reset_signals(void)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigset_t none;

    for (int sig = 1; sig < NSIG; sig++) {
        (void)sigaction(sig, &action, NULL);
    }
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* In the driver's group: an interrupt and the end of a context reach all that it has started. */
static void NORETURN become(const struct driver *d, char *const *argv, int link, int link_fd,
                            pid_t driver)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    for (int i = 0; i < DRIVER_STDIO; i++) {
        int from = link_fd < 0 && d->stdio[i] >= 0 ? d->stdio[i] : null;
        if (dup3(from, i, 0) < 0) {
            _exit(EXIT_FAILURE);
        }
    }
    if (link_fd >= 0 && link != link_fd && dup3(link, link_fd, 0) < 0) {
        _exit(EXIT_FAILURE);
    }
    reset_signals();
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != driver) {
        _exit(EXIT_FAILURE);
    }
    execv(argv[0], argv);
    const char *slash = strrchr(argv[0], '/');
    dprintf(STDERR_FILENO, "%s: cannot start: %s\n", slash != NULL ? slash + 1 : argv[0],
            strerrordesc_np(errno));
    _exit(EXIT_NOT_STARTED);
}

int driver_spawn(struct driver *d, char *const *argv, int link_fd, struct err *e)
{
    int pair[2] = {-1, -1};
    pid_t driver = getpid();

    if (link_fd >= 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
        return err_sys(e, errno, "link");
    }
    pid_t pid = rawfork_plain();
    if (pid == 0) {
        become(d, argv, pair[1], link_fd, driver);
    }
    fd_close(&pair[1]);
    if (pid < 0) {
        fd_close(&pair[0]);
        return pid == -EAGAIN ? err_set(e, ERR_LIMIT, "the session has reached its process limit")
                              : err_sys(e, -pid, "fork");
    }
    d->pid = pid;
    d->link = pair[0];
    d->in.len = 0;
    d->out.len = 0;
    return 0;
}

/* Of no process kill() would take the number for the driver's own group. */
void driver_kill(const struct driver *d)
{
    if (d->pid > 0) {
        (void)kill(d->pid, SIGKILL);
    }
}

void driver_close_link(struct driver *d)
{
    fd_close(&d->link);
    buf_release(&d->in);
    buf_release(&d->out);
}

/* ---- the link ---- */

/* False: the other end is closed. */
static bool receive(struct driver *d)
{
    char chunk[CHUNK];
    ssize_t n;

    while ((n = recv(d->link, chunk, sizeof(chunk), MSG_DONTWAIT)) > 0) {
        if (buf_add(&d->in, chunk, (size_t)n) < 0) {
            return false;
        }
    }
    return n < 0 && (errno == EAGAIN || errno == EINTR);
}

/* False: the other end is closed. */
static bool send_some(struct driver *d)
{
    ssize_t n = send(d->link, d->out.data, d->out.len, MSG_DONTWAIT | MSG_NOSIGNAL);

    if (n > 0) {
        buf_consume(&d->out, (size_t)n);
    }
    if (d->out.len == 0) {
        buf_release(&d->out);
    }
    return n > 0 || errno == EAGAIN || errno == EINTR;
}

static bool has_ended(struct driver *d)
{
    struct signalfd_siginfo drain[4];

    while (read(d->signals, drain, sizeof(drain)) > 0) {
    }
    if (d->pid == 0 || waitpid(d->pid, &d->status, WNOHANG) != d->pid) {
        return false;
    }
    d->pid = 0;
    return true;
}

bool driver_exchange(struct driver *d, int timeout_ms)
{
    short events = d->out.len > 0 ? POLLIN | POLLOUT : POLLIN;
    struct pollfd p[] = {{.fd = d->link, .events = events}, {.fd = d->signals, .events = POLLIN}};

    if (poll(p, ARRAY_LEN(p), timeout_ms) < 0) {
        return errno == EINTR;
    }
    if ((p[1].revents & POLLIN) != 0 && has_ended(d)) {
        return false;
    }
    bool is_open = true;
    if ((p[0].revents & POLLOUT) != 0) {
        is_open = send_some(d);
    }
    if (is_open && (p[0].revents & ~POLLOUT) != 0) {
        is_open = receive(d);
    }
    if (!is_open) { /* it ends, or user code has closed it, or (exec) put a program in its place */
        driver_close_link(d);
        if (d->kind->needs_link) {
            driver_kill(d);
        }
    }
    return true;
}

/* ---- signals on their way ---- */

/* Whether SIGINT is in one of these sets of a process: "ShdPnd:", "SigCgt:", ... */
static bool has_interrupt(pid_t pid, const char *const *sets, size_t n_sets)
{
    char path[32];
    char text[2048];

    (void)str_format(path, sizeof(path), "/proc/%d/status", (int)pid);
    if (fd_read_file(AT_FDCWD, path, text, sizeof(text)) < 0) {
        return false;
    }
    for (size_t i = 0; i < n_sets; i++) {
        const char *at = strstr(text, sets[i]);
        if (at != NULL && (strtoull(at + strlen(sets[i]), NULL, 16) >> (SIGINT - 1) & 1) != 0) {
            return true;
        }
    }
    return false;
}

void driver_await_signal(pid_t pid)
{
    static const char *const pending[] = {"ShdPnd:"};
    const struct timespec pause = {.tv_nsec = NS_PER_MS};
    uint64_t until = clock_ms() + SIGNAL_PATIENCE_MS;

    while (has_interrupt(pid, pending, ARRAY_LEN(pending)) && clock_ms() < until) {
        nanosleep(&pause, NULL);
    }
}

void driver_signal_again(void)
{
    static const char *const handled[] = {"SigCgt:", "SigIgn:", "SigBlk:"};
    DIR *proc = opendir("/proc");
    const struct dirent *entry;

    while (proc != NULL && (entry = readdir(proc)) != NULL) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid > 1 && getpgid(pid) == getpgrp() &&
            !has_interrupt(pid, handled, ARRAY_LEN(handled))) {
            (void)kill(pid, SIGINT);
        }
    }
    if (proc != NULL) {
        (void)closedir(proc);
    }
}
