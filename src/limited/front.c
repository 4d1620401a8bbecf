/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The front: the caller's process while the program runs; see limited.h.
 *
 * A pidfd reports the end of the parent. PR_SET_PDEATHSIG would fire when the *thread* that started
 * us ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "limited/limited_impl.h"

/* The most that limits_check() allows: a limit that is not given is not set. */
#define MEMORY_MOST ((uint64_t)1 << 40)
#define CPU_MOST 1024000
#define PIDS_MOST 32768

struct front {
    const struct limited_options *o;
    struct limited_place place;
    int signals; /* signalfd */
    int parent;  /* pidfd; -1: it is outside our pid namespace */
    pid_t keeper;
    struct keeper_msg last; /* of the keeper */
};

bool limited_is_out_of_memory(const struct limited_end *end)
{
    return end->signal == SIGKILL && end->oom_kills > 0;
}

/* ---- the start ---- */

static int block_signals(struct front *f, struct err *e)
{
    static const int passed_on[] = {SIGTERM, SIGINT, SIGHUP};
    sigset_t mask;

    sigemptyset(&mask);
    for (size_t i = 0; i < ARRAY_LEN(passed_on); i++) {
        sigaddset(&mask, passed_on[i]);
    }
    sigprocmask(SIG_BLOCK, &mask, &f->place.old_mask);
    f->signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    return f->signals < 0 ? err_sys(e, errno, "signalfd") : 0;
}

static int find_parent(struct front *f, struct err *e)
{
    pid_t parent = getppid();

    if (parent == 0) { /* the parent is outside our pid namespace */
        return prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 ? err_sys(e, errno, "prctl") : 0;
    }
    f->parent = pidfd_open(parent, 0);
    if (getppid() != parent) {
        return err_set(e, ERR_SYSTEM, "the process that started husk has ended");
    }
    return f->parent < 0 ? err_sys(e, errno, "cannot watch process %d", (int)parent) : 0;
}

static int open_cgroup(struct front *f, struct err *e)
{
    const struct limited_options *o = f->o;
    struct limits limits = {
        .memory_bytes = o->memory_bytes != 0 ? o->memory_bytes : MEMORY_MOST,
        .cpu_milli = o->cpu_milli != 0 ? o->cpu_milli : CPU_MOST,
        .pids = o->pids != 0 ? o->pids : PIDS_MOST,
    };
    char instance[64];

    limits_fill(&limits);
    if (limits_check(&limits, e) < 0) {
        return -1;
    }
    int r = cgroup_self_name(instance, sizeof(instance));
    if (r < 0) {
        return err_sys(e, -r, "cannot name a cgroup");
    }
    if (cgroup_host_open(instance, false, &f->place.host, e) < 0) {
        return -1;
    }
    const struct cgroup_facts *facts = cgroup_host_facts(f->place.host);
    if (!facts->memory || !facts->cpu || !facts->pids) {
        err_set(e, ERR_ISOLATION,
                "cannot limit a program: %s; run husk as root or in a delegated cgroup, or accept "
                "weaker limits with --best-effort",
                facts->why_not);
        cgroup_host_close(f->place.host);
        f->place.host = NULL;
        return f->o->best_effort ? 0 : -1;
    }
    return cgroup_new(f->place.host, o->name, &f->place.cgroup, e) < 0 ||
                   cgroup_set_limits(f->place.cgroup, &limits, e) < 0
               ? -1
               : 0;
}

static int start_keeper(struct front *f, struct err *e)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        return err_sys(e, errno, "socketpair");
    }
    f->place.control = pair[0];
    f->keeper = fork();
    if (f->keeper == 0) {
        close(pair[0]);
        f->place.control = pair[1];
        keeper_run(f->o, &f->place);
    }
    close(pair[1]);
    return f->keeper < 0 ? err_sys(e, errno, "fork") : 0;
}

/* ---- while it runs ---- */

static void pass_on(const struct front *f)
{
    struct signalfd_siginfo info;

    while (read(f->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        int signal = (int)info.ssi_signo;
        /* A signal of the terminal reaches the program itself, which is in our process group. */
        if (info.ssi_code != SI_KERNEL) {
            (void)send(f->place.control, &signal, sizeof(signal), MSG_NOSIGNAL | MSG_DONTWAIT);
        }
    }
}

/* False: the keeper has ended. */
static bool hear_keeper(struct front *f)
{
    ssize_t n = recv(f->place.control, &f->last, sizeof(f->last), MSG_DONTWAIT);

    if (n < 0 && errno == EAGAIN) {
        return true;
    }
    if (n != (ssize_t)sizeof(f->last)) {
        f->last.kind = KEEPER_STARTED; /* killed before it sent its last message */
        return false;
    }
    if (f->last.kind != KEEPER_STARTED) {
        return false;
    }
    if (f->o->on_start != NULL) {
        f->o->on_start(f->o->user, f->last.pid, f->place.cgroup == NULL);
    }
    if (f->place.cgroup != NULL) {
        (void)cgroup_sweep(); /* removes cgroups of runs that were killed with their keeper */
    }
    return true;
}

static void loop(struct front *f)
{
    bool going = true;

    while (going) {
        struct pollfd p[] = {{.fd = f->signals, .events = POLLIN},
                             {.fd = f->place.control, .events = POLLIN},
                             {.fd = f->parent, .events = POLLIN}};
        (void)poll(p, ARRAY_LEN(p), -1);
        if (p[0].revents != 0) {
            pass_on(f);
        }
        if (p[2].revents != 0) {
            /* The keeper ends everything and reports it. */
            (void)shutdown(f->place.control, SHUT_WR);
            fd_close(&f->parent);
        }
        if (p[1].revents != 0) {
            going = hear_keeper(f);
        }
    }
}

static int conclude(struct front *f, struct limited_end *ret, struct err *e)
{
    switch (f->last.kind) {
    case KEEPER_ENDED:
        *ret = f->last.end;
        return 0;
    case KEEPER_FAILED:
        return err_sys(e, -f->last.why, "cannot run %s", f->o->argv[0]);
    case KEEPER_STARTED:
        break;
    }
    return err_set(e, ERR_SYSTEM, "the keeper of %s was killed, and %s with it", f->o->name,
                   f->o->name);
}

int limited_run(const struct limited_options *o, struct limited_end *ret, struct err *e)
{
    struct front f = {.o = o, .signals = -1, .parent = -1, .place = {.control = -1}};
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction usual = {.sa_handler = SIG_DFL};
    int r = -1;

    sigaction(SIGCHLD, &usual, NULL); /* if the caller ignores it, waitpid() fails */
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    if (block_signals(&f, e) == 0 && find_parent(&f, e) == 0 && open_cgroup(&f, e) == 0 &&
        start_keeper(&f, e) == 0) {
        limited_let_go();
        sigaction(SIGPIPE, &ignore, NULL); /* the end of the report's reader must not end us */
        loop(&f);
        r = conclude(&f, ret, e);
    }
    cgroup_free(f.place.cgroup); /* for a keeper that was killed */
    cgroup_host_close(f.place.host);
    if (f.keeper > 0 && f.last.kind == KEEPER_STARTED) {
        descendants_end(&f.keeper, &(int){0});
    } else if (f.keeper > 0) {
        (void)waitpid(f.keeper, NULL, 0);
    }
    fd_close(&f.place.control);
    fd_close(&f.parent);
    fd_close(&f.signals);
    return r;
}
