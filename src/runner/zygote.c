/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The zygote's loop; see zygote.h.
 *
 * How a box starts: the launcher sends SPAWN with the box's descriptors. The zygote enters an
 * unused network namespace, clones a child into new user, mount, pid, ipc and uts namespaces,
 * writes the child's id maps (only a parent namespace may), lets it continue and sends its pidfd to
 * the launcher. The child walks box_setup() and returns from zygote_serve() into the runtime.
 */
#include "runner/zygote.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/units.h"
#include "box/idmap.h"
#include "box/netns.h"
#include "box/root.h"
#include "box/setup.h"
#include "box/sys.h"
#include "runner/clonesync.h"
#include "runner/control.h"
#include "runner/hotset.h"
#include "runner/rawfork.h"
#include "wire/launcher_msg.h"
#include "wire/zygote_msg.h"

#define NETNS_KEEP 600 /* unused network namespaces held for the next boxes */
#define NETNS_SPARE 4  /* as many are made ahead, when there is nothing else to do */
#define TRIM_MS 5000   /* nothing to do for so long: half of what a burst left is freed */
#define IDLE_MS 1      /* nothing to do for so long */
/* Descriptors of network namespaces: a box leaves the table with all of them at once. */
#define NETNS_FD_FIRST 256

static struct {
    int child_signals; /* signalfd */
    sigset_t old_mask;
    struct netns free_nets[NETNS_KEEP];
    size_t n_free;
    struct {
        pid_t pid; /* 0: slot is free */
        uint32_t box_id;
        struct netns net;
    } live[LAUNCHER_BOXES_MAX + 1];
    const char *writable[BOX_WRITABLE_MAX];
    size_t n_writable;
    char writable_text[1024];
    char note[sizeof(((struct err *)0)->msg)];
    uint32_t profile;  /* number of the filter that all boxes have, plus 1; 0: no box yet */
    bool shares_table; /* a new child has our table of descriptors until it leaves it */
} z;

static void report(const struct zygote_rep *rep, int fd)
{
    ssize_t n = fd_send(ZYGOTE_FD, rep, sizeof(*rep), &fd, fd >= 0 ? 1 : 0, 0);

    if (n != (ssize_t)sizeof(*rep)) {
        _exit(0); /* the launcher is gone: everything that it made ends */
    }
}

void zygote_broken(const char *message)
{
    struct zygote_rep rep = {.event = ZYGOTE_BROKEN, .err = {.code = ERR_TEMPLATE}};

    str_printable(rep.err.msg, sizeof(rep.err.msg), message, strlen(message));
    report(&rep, -1);
    _exit(1);
}

void zygote_note(const char *message)
{
    str_printable(z.note, sizeof(z.note), message, strlen(message));
}

static void refuse(uint32_t box_id, const struct err *e)
{
    struct zygote_rep rep = {.event = ZYGOTE_REFUSED, .box_id = box_id, .err = *e};

    report(&rep, -1);
}

/* HUSK_WRITABLE is "/a:/b": mounts of the template that its boxes may write. */
static void read_writable(void)
{
    const char *text = getenv("HUSK_WRITABLE");
    char *p = z.writable_text;

    if (text == NULL || str_copy(z.writable_text, sizeof(z.writable_text), text) < 0) {
        return;
    }
    while (*p != '\0' && z.n_writable < BOX_WRITABLE_MAX) {
        z.writable[z.n_writable++] = p;
        p += strcspn(p, ":");
        if (*p == ':') {
            *p++ = '\0';
        }
    }
}

/*
 * A zygote with many boxes has thousands of descriptors, nearly all for namespaces. A fork would
 * copy them one by one and the box close them one by one; instead the child shares the table for a
 * moment and then copies only the low ones.
 */
static void leave_table(void)
{
    if (z.shares_table && sys_leave_above(NETNS_FD_FIRST) < 0) {
        _exit(1);
    }
    clonesync_say_left();
}

static void start(void)
{
    struct zygote_rep ready = {.event = ZYGOTE_READY};
    sigset_t mask;

    (void)str_copy(ready.err.msg, sizeof(ready.err.msg), z.note);

    /* Boxes inherit half of their confinement from us: without it none may be made. */
    if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != SECCOMP_MODE_FILTER ||
        prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) {
        zygote_broken("the zygote was not confined by the launcher");
    }
    read_writable();
    z.shares_table = sys_leave_above(~0U) == 0; /* not before Linux 5.9 */
    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    sigprocmask(SIG_BLOCK, &mask, &z.old_mask);
    z.child_signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    if (z.child_signals < 0 || clonesync_open(ARRAY_LEN(z.live)) < 0) {
        zygote_broken("cannot watch boxes");
    }
    if (dup3(STDIN_FILENO, STDERR_FILENO, 0) < 0) { /* the launcher reads it no further */
        zygote_broken("cannot close stderr");
    }
    report(&ready, -1);
}

/* Enters a namespace in which no packet was ever sent. */
static int take_netns(struct netns *ret, struct err *e)
{
    if (z.n_free == 0) {
        return netns_new(ret, e) < 0 ? -1 : netns_move_up(ret, NETNS_FD_FIRST, e);
    }
    *ret = z.free_nets[--z.n_free];
    return netns_enter(ret, e);
}

/*
 * Idle work. Making a namespace takes longer than the rest of a box's start, so a few are made
 * ahead; and those that a burst of boxes left behind are freed, since each holds 200 KB of the
 * kernel's memory.
 */
static int idle_after_ms(void)
{
    return z.n_free < NETNS_SPARE ? IDLE_MS : z.n_free > NETNS_SPARE ? TRIM_MS : -1;
}

static void work_idly(void)
{
    struct err ignored; /* a box that needs a namespace tries again, and reports */

    if (z.n_free < NETNS_SPARE) {
        struct netns *net = &z.free_nets[z.n_free];
        if (netns_new(net, &ignored) == 0) {
            if (netns_move_up(net, NETNS_FD_FIRST, &ignored) == 0) {
                z.n_free++;
            } else {
                netns_release(net);
            }
        }
        return;
    }
    for (size_t keep = MAX(z.n_free / 2, NETNS_SPARE); z.n_free > keep;) {
        netns_release(&z.free_nets[--z.n_free]);
    }
}

static void give_netns(struct netns *net)
{
    if (z.n_free < NETNS_KEEP && netns_is_untouched(net)) {
        z.free_nets[z.n_free++] = *net;
    } else {
        netns_release(net);
    }
}

/* Child side, from here to the runtime. */
static void become_box(const struct zygote_req *req, const struct fd_set_msg *fds)
{
    struct box_setup setup = {
        .limits = req->limits,
        .own_pids = req->mode == LAUNCHER_SESSION ? LIMITS_OWN_PIDS : 0,
        .seccomp = &seccomp_programs[req->seccomp],
        .stdio = {fds->fds[1], fds->fds[2], fds->fds[3]},
        .control = fds->fds[0],
        .await_maps = clonesync_await_mapped,
        .touch_memory = req->warmth != LAUNCHER_COOL ? hotset_touch : NULL,
        .n_procs = fds->n - ZYGOTE_SPAWN_FDS,
        .landlock_abi = req->landlock_abi,
        .single_id = req->block == 0,
        .limit_data = req->limit_data != 0,
        .writable = z.writable,
        .n_writable = z.n_writable,
    };
    struct err e;

    memcpy(setup.procs, fds->fds + ZYGOTE_SPAWN_FDS, setup.n_procs * sizeof(int));
    if (box_setup(&setup, &e) < 0) {
        control_send_failed(setup.control, e.msg);
        _exit(1);
    }
    sigprocmask(SIG_SETMASK, &z.old_mask, NULL);
}

static size_t free_slot(void)
{
    size_t i = 0;

    while (i < ARRAY_LEN(z.live) && z.live[i].pid != 0) {
        i++;
    }
    return i;
}

/* Parent side: maps, release, report. */
static void raise_box(const struct zygote_req *req, pid_t pid, int pidfd)
{
    struct zygote_rep rep = {.event = ZYGOTE_SPAWNED, .box_id = req->box_id};

    if (idmap_write_box(pid, req->block, BOX_UID, &rep.err) < 0) {
        kill(pid, SIGKILL); /* before it did anything; its EXITED follows */
    } else {
        clonesync_say_mapped();
    }
    report(&rep, pidfd);
}

/* True in the child. */
static bool spawn(const struct zygote_req *req, const struct fd_set_msg *fds)
{
    struct netns net = {-1, -1};
    struct err e = {0};
    int pidfd = -1;
    size_t slot = free_slot();

    if (slot == ARRAY_LEN(z.live)) {
        err_set(&e, ERR_LIMIT, "the zygote has %zu boxes already", slot);
        refuse(req->box_id, &e);
        return false;
    }
    if (take_netns(&net, &e) < 0) {
        netns_release(&net);
        refuse(req->box_id, &e);
        return false;
    }
    uint64_t flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS;
    if (z.shares_table) {
        flags |= CLONE_FILES;
    }
    clonesync_begin(slot);
    pid_t pid = rawfork(flags, &pidfd);
    if (pid == 0) {
        leave_table();
        become_box(req, fds);
        return true;
    }
    if (pid < 0) {
        err_sys(&e, -pid, "clone a box");
        refuse(req->box_id, &e);
        give_netns(&net);
    } else {
        z.live[slot].pid = pid;
        z.live[slot].box_id = req->box_id;
        z.live[slot].net = net;
        raise_box(req, pid, pidfd);
        clonesync_await_left(pidfd);
    }
    fd_close(&pidfd);
    return false;
}

static void report_exit(pid_t pid, int status, const struct rusage *usage)
{
    for (size_t i = 0; i < ARRAY_LEN(z.live); i++) {
        if (z.live[i].pid != pid) {
            continue;
        }
        struct zygote_rep rep = {
            .event = ZYGOTE_EXITED,
            .box_id = z.live[i].box_id,
            .wait_status = status,
            .cpu_ns =
                ((uint64_t)usage->ru_utime.tv_sec + (uint64_t)usage->ru_stime.tv_sec) * NS_PER_SEC +
                ((uint64_t)usage->ru_utime.tv_usec + (uint64_t)usage->ru_stime.tv_usec) * 1000u,
            .memory_max = (uint64_t)usage->ru_maxrss * 1024u,
        };
        z.live[i].pid = 0;
        report(&rep, -1);
        give_netns(&z.live[i].net);
        return;
    }
}

static void reap(void)
{
    struct signalfd_siginfo drain[8];
    struct rusage usage;
    int status;
    pid_t pid;

    while (read(z.child_signals, drain, sizeof(drain)) > 0) {
    }
    while ((pid = wait4(-1, &status, WNOHANG, &usage)) > 0) {
        report_exit(pid, status, &usage);
    }
}

/*
 * The launcher has loaded the first half of one filter into us. A box with the second half of
 * another would have neither.
 */
static bool fits_filter(const struct zygote_req *req)
{
    struct err e;

    if (z.profile == 0) {
        z.profile = req->seccomp + 1;
    }
    if (z.profile == req->seccomp + 1) {
        return true;
    }
    err_set(&e, ERR_ISOLATION, "the zygote has the first half of another filter");
    refuse(req->box_id, &e);
    return false;
}

/* True in the child, with *ret filled in. */
static bool serve_request(struct zygote_child *ret)
{
    struct zygote_req req;
    struct fd_set_msg fds = {.n = 0};

    ssize_t n = fd_recv(ZYGOTE_FD, &req, sizeof(req), &fds, 0);
    if (n == 0) {
        _exit(0); /* the launcher is gone; every box ends with this PID 1 */
    }
    if (n < 0) {
        return false;
    }
    if (!zygote_req_check(&req, (size_t)n, fds.n) || req.seccomp >= seccomp_programs_n) {
        _exit(1);
    }
    if (fits_filter(&req) && spawn(&req, &fds)) {
        *ret = (struct zygote_child){.mode = req.mode, .warmth = req.warmth};
        return true; /* the descriptors were closed or placed by the set-up */
    }
    fd_set_release(&fds);
    return false;
}

void zygote_serve(struct zygote_child *ret)
{
    start();
    for (;;) {
        struct pollfd p[2] = {{.fd = ZYGOTE_FD, .events = POLLIN},
                              {.fd = z.child_signals, .events = POLLIN}};
        int ready = poll(p, 2, idle_after_ms());
        if (ready < 0 && errno != EINTR) {
            _exit(1);
        }
        if (ready == 0) {
            work_idly();
        }
        if ((p[1].revents & POLLIN) != 0) {
            reap();
        }
        if (p[0].revents != 0 && serve_request(ret)) {
            return;
        }
    }
}
