/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper: starts the program, waits for its end, and then ends its descendants; see limited.h.
 *
 * It reacts only to the front and to the deaths of its descendants: all signals are blocked, since
 * the front passes on those of a terminal or of the parent.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/parse.h"
#include "base/units.h"
#include "limited/limited_impl.h"

#define OOM_WATCH_MS 100 /* between checks where the kernel kills only one process */

struct keeper {
    const struct limited_options *o;
    struct limited_place *place;
    int deaths;    /* signalfd */
    pid_t program; /* 0: it has ended */
    int status;
};

void limited_let_go(void)
{
    const struct dirent *entry;
    uint64_t fd;
    DIR *dir = opendir("/proc/self/fd");

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (parse_u64(entry->d_name, &fd) < 0 || fd <= STDERR_FILENO) {
            continue;
        }
        int flags = fcntl((int)fd, F_GETFD);
        if (flags >= 0 && (flags & FD_CLOEXEC) == 0) {
            close((int)fd);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0) {
        (void)dup2(null, STDIN_FILENO);
        (void)dup2(null, STDOUT_FILENO);
    }
}

static void tell(const struct keeper *k, const struct keeper_msg *msg)
{
    /* Fails only if the front has ended. */
    (void)send(k->place->control, msg, sizeof(*msg), MSG_NOSIGNAL);
}

/* ---- the program ---- */

static int join(const struct keeper *k)
{
    int fds[CGROUP_PROCS_MAX];
    size_t n = cgroup_procs_fds(k->place->cgroup, fds);

    for (size_t i = 0; i < n; i++) {
        if (write(fds[i], "0", 1) != 1) {
            return -errno;
        }
    }
    return 0;
}

static NORETURN void become(const struct keeper *k, pid_t keeper, int failure)
{
    int why = k->place->cgroup != NULL ? join(k) : weak_limit(k->o);

    if (why == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        if (getppid() != keeper) {
            _exit(EXIT_FAILURE);
        }
        sigprocmask(SIG_SETMASK, &k->place->old_mask, NULL);
        execvp(k->o->argv[0], k->o->argv);
        why = -errno;
    }
    (void)!write(failure, &why, sizeof(why));
    _exit(EXIT_FAILURE);
}

/* 0 when the program runs, or -errno. */
static int start(struct keeper *k)
{
    pid_t self = getpid();
    int pipe_fds[2];
    int why = 0;

    if (pipe2(pipe_fds, O_CLOEXEC) < 0) {
        return -errno;
    }
    k->program = fork();
    if (k->program == 0) {
        become(k, self, pipe_fds[1]);
    }
    if (k->program < 0) {
        why = -errno;
        k->program = 0;
    }
    fd_close(&pipe_fds[1]);
    if (why == 0 && fd_read_all(pipe_fds[0], &why, sizeof(why)) == 0) {
        why = 0; /* closed by a successful exec */
    }
    fd_close(&pipe_fds[0]);
    return why;
}

/* ---- watching ---- */

static void take_deaths(struct keeper *k)
{
    struct signalfd_siginfo ignored;
    pid_t pid;
    int status;

    while (read(k->deaths, &ignored, sizeof(ignored)) > 0) {
    }
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == k->program) {
            k->program = 0;
            k->status = status;
        }
    }
}

/* False: the front has ended or asks for the end. */
static bool hear_front(const struct keeper *k)
{
    int signal;

    ssize_t n = recv(k->place->control, &signal, sizeof(signal), MSG_DONTWAIT);
    if (n != (ssize_t)sizeof(signal)) {
        return n < 0 && errno == EAGAIN;
    }
    if (k->program > 0) {
        kill(k->program, signal);
    }
    return true;
}

static void watch(struct keeper *k)
{
    bool look = k->place->cgroup != NULL && cgroup_oom_needs_watch(k->place->host);

    while (k->program > 0) {
        struct pollfd p[] = {{.fd = k->deaths, .events = POLLIN},
                             {.fd = k->place->control, .events = POLLIN}};
        (void)poll(p, ARRAY_LEN(p), look ? OOM_WATCH_MS : -1);
        if (p[0].revents != 0) {
            take_deaths(k);
        }
        if (p[1].revents != 0 && !hear_front(k)) {
            return;
        }
        /*
         * All processes or none, as cgroup v2 does it: a program that lost one of its processes is
         * in an untested state.
         */
        if (look && k->program > 0 && cgroup_oom_kills(k->place->cgroup) > 0) {
            (void)cgroup_kill(k->place->cgroup);
        }
    }
}

/* ---- the end ---- */

static void count(const struct keeper *k, struct limited_end *ret)
{
    struct rusage all = {0};
    struct cgroup_usage u = {0};

    if (k->place->cgroup != NULL) {
        cgroup_usage(k->place->cgroup, &u);
        ret->oom_kills = u.oom_kills;
        ret->peak_memory = u.memory_peak;
        ret->cpu_ms = u.cpu_ns / NS_PER_MS;
        return;
    }
    if (getrusage(RUSAGE_CHILDREN, &all) == 0) {
        ret->peak_memory = (uint64_t)all.ru_maxrss * 1024;
        ret->cpu_ms = (uint64_t)(all.ru_utime.tv_sec + all.ru_stime.tv_sec) * 1000 +
                      (uint64_t)(all.ru_utime.tv_usec + all.ru_stime.tv_usec) / 1000;
    }
}

static void finish(struct keeper *k, struct keeper_msg *msg)
{
    struct limited_end *end = &msg->end;

    if (k->place->cgroup != NULL) {
        (void)cgroup_kill(k->place->cgroup);
    }
    descendants_end(&k->program, &k->status); /* also processes that left the cgroup */
    count(k, end);
    end->signal = WIFSIGNALED(k->status) ? WTERMSIG(k->status) : 0;
    end->exit_code = end->signal != 0 ? 128 + end->signal : WEXITSTATUS(k->status);
    cgroup_free(k->place->cgroup);
    cgroup_host_close(k->place->host);
}

NORETURN void keeper_run(const struct limited_options *o, struct limited_place *place)
{
    struct keeper k = {.o = o, .place = place};
    struct keeper_msg msg = {.kind = KEEPER_STARTED};
    sigset_t mask;

    prctl(PR_SET_NAME, "husk-keeper", 0, 0, 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    sigfillset(&mask);
    sigprocmask(SIG_BLOCK, &mask, NULL);
    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    k.deaths = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    msg.why = k.deaths < 0 ? -errno : start(&k);
    msg.pid = k.program;
    if (msg.why == 0) {
        limited_let_go();
        tell(&k, &msg);
        watch(&k);
    }
    msg.kind = msg.why == 0 ? KEEPER_ENDED : KEEPER_FAILED;
    finish(&k, &msg);
    tell(&k, &msg);
    _exit(0);
}
