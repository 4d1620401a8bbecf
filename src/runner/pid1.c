/* SPDX-License-Identifier: Apache-2.0 */
/* PID 1 of a session; see pid1.h. Like the zygote it must not disturb the memory that it forks. */
#include "runner/pid1.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/limits.h"
#include "box/setup.h"
#include "runner/control.h"
#include "runner/fileworkers.h"
#include "runner/interrupt.h"
#include "runner/processes.h"
#include "runner/rawfork.h"
#include "runner/sweep.h"

#define FATES_KEPT CONTEXTS_MAX

/* Contexts that we have forked, and branches of them. */
static struct {
    pid_t pid; /* 0: a free place */
    bool is_driver;
} contexts[CONTEXTS_MAX];

/* How the last contexts ended: a client that dies may have heard of it, and done nothing yet. */
static struct {
    pid_t pid;
    int status;
} fates[FATES_KEPT];
static size_t next_fate;

static int send_exited(pid_t pid, int status)
{
    AUTO_BUF struct buf b = BUF_INIT(256);

    if (frame_begin(&b, FRAME_EXITED, NULL) < 0 || frame_add_u32(&b, KEY_PID, (uint32_t)pid) < 0 ||
        frame_add_u32(&b, KEY_EXIT, (uint32_t)status) < 0 || frame_end(&b) < 0) {
        return -ENOMEM;
    }
    /* Does not wait: a client that does not read notices when its context does not answer. */
    ssize_t n = fd_send(BOX_CONTROL_FD, b.data, b.len, NULL, 0, MSG_DONTWAIT);
    return n < 0 && n != -EAGAIN ? (int)n : 0;
}

/* For a successor of the client. Nothing while it lives, or if that is too long ago. */
static void repeat_fate(const struct buf *body)
{
    struct frame_field f;
    uint32_t pid = 0;

    for (size_t at = 0; frame_next(body->data, body->len, &at, &f) > 0;) {
        if (f.key == KEY_PID) {
            (void)frame_field_u32(&f, &pid);
        }
    }
    for (size_t i = 0; pid != 0 && i < FATES_KEPT; i++) {
        if (fates[i].pid == (pid_t)pid && send_exited(fates[i].pid, fates[i].status) < 0) {
            _exit(0);
        }
    }
}

static void forget_fate(pid_t pid)
{
    for (size_t i = 0; i < FATES_KEPT; i++) {
        fates[i].pid = fates[i].pid == pid ? 0 : fates[i].pid;
    }
}

static void note_fate(pid_t pid, int status)
{
    forget_fate(pid);
    fates[next_fate].pid = pid;
    fates[next_fate].status = status;
    next_fate = (next_fate + 1) % FATES_KEPT;
}

/* From 0 to a pid: adds it. From a pid to 0: removes it. */
static void note_context(pid_t from, pid_t to, bool is_driver)
{
    forget_fate(to); /* of another that had this number before */
    for (size_t i = 0; i < ARRAY_LEN(contexts); i++) {
        if (contexts[i].pid == from) {
            contexts[i].pid = to;
            contexts[i].is_driver = is_driver;
            return;
        }
    }
}

bool pid1_has(pid_t pid)
{
    for (size_t i = 0; i < ARRAY_LEN(contexts); i++) {
        if (contexts[i].pid == pid) {
            return true;
        }
    }
    return false;
}

bool pid1_has_driver(pid_t pid)
{
    for (size_t i = 0; i < ARRAY_LEN(contexts); i++) {
        if (contexts[i].pid == pid && contexts[i].is_driver) {
            return true;
        }
    }
    return false;
}

static bool has_mail(void)
{
    struct pollfd p = {.fd = BOX_CONTROL_FD, .events = POLLIN};

    return poll(&p, 1, 0) > 0;
}

static void reap_one(pid_t pid)
{
    bool is_context = pid1_has(pid);
    int status;

    if (waitpid(pid, &status, 0) != pid) {
        return;
    }
    note_context(pid, 0, false);
    interrupt_forget(pid);
    if (is_context) {
        note_fate(pid, status);
    }
    if (!fileworkers_reaped(pid) && is_context && send_exited(pid, status) < 0) {
        _exit(0);
    }
}

/*
 * False: an unknown process has ended, and a frame is waiting. It may announce this process as a
 * branch, whose end the client waits for: the frame has to be read first.
 */
static bool reap(int signals)
{
    struct signalfd_siginfo drain[8];
    siginfo_t ended = {0};

    while (read(signals, drain, sizeof(drain)) > 0) {
    }
    while (waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid != 0) {
        if (!pid1_has(ended.si_pid) && has_mail()) {
            return false;
        }
        reap_one(ended.si_pid);
        ended.si_pid = 0;
    }
    return true;
}

/* Tells the client whether the signal has hit. */
static void say_signalled(uint64_t order, bool hit)
{
    AUTO_BUF struct buf b = BUF_INIT(256);

    if (frame_begin(&b, FRAME_SIGNALLED, NULL) < 0 || frame_add_u64(&b, KEY_ORDER, order) < 0 ||
        frame_add_u32(&b, KEY_SIGNAL, hit ? SIGINT : 0) < 0 || frame_end(&b) < 0) {
        return;
    }
    (void)fd_send(BOX_CONTROL_FD, b.data, b.len, NULL, 0, MSG_DONTWAIT);
}

static void pass_signal(const struct frame_head *head, const struct buf *body)
{
    struct frame_field f;
    uint64_t order = 0;
    uint32_t pid = 0;
    uint32_t sig = 0;
    bool is_driver = false;

    for (size_t at = 0; frame_next(body->data, body->len, &at, &f) > 0;) {
        if (f.key == KEY_PID) {
            (void)frame_field_u32(&f, &pid);
        } else if (f.key == KEY_SIGNAL) {
            (void)frame_field_u32(&f, &sig);
        } else if (f.key == KEY_ORDER) {
            (void)frame_field_u64(&f, &order);
        } else if (f.key == KEY_NAME) {
            is_driver = true;
        }
    }
    if (pid > 1 && sig == 0 && !pid1_has((pid_t)pid)) {
        /* a branch of another context: not forked, but reaped by us */
        note_context(0, (pid_t)pid, is_driver);
    } else if (pid > 1 && sig == SIGINT) {
        bool hit = interrupt_send((pid_t)pid, head->token);
        if (order != 0) {
            say_signalled(order, hit);
        }
    } else if (pid > 1 && sig > 0 && sig < 32) {
        /* A context leads a group: the signal is also for what it started. It may be gone. */
        if (kill(-(pid_t)pid, (int)sig) < 0) {
            (void)kill((pid_t)pid, (int)sig);
        }
    }
}

static void serve_sweep(const struct buf *body)
{
    AUTO_BUF struct buf b = BUF_INIT(256);
    uint64_t order;

    if (sweep(body, &order) < 0) {
        return; /* the client does not get an answer in time, and treats the sweep as failed */
    }
    if (frame_begin(&b, FRAME_SWEPT, NULL) < 0 || frame_add_u64(&b, KEY_ORDER, order) < 0 ||
        frame_end(&b) < 0 || control_send(BOX_CONTROL_FD, &b) < 0) {
        _exit(0);
    }
}

/* In the child. */
static void become_context(int control, int signals, const sigset_t *old_mask)
{
    close(signals);
    fileworkers_forget();
    sigprocmask(SIG_SETMASK, old_mask, NULL);
    /* User code may inspect itself: debuggers, /proc/self. */
    if (dup3(control, BOX_CONTROL_FD, O_CLOEXEC) < 0 || processes_bound() < 0 ||
        prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0) {
        _exit(1);
    }
    close(control);
    setpgid(0, 0);
    interrupt_attach();
}

/* True in the new context, if its interpreter is PID 1's own. */
static bool fork_context(const struct pid1_interpreters *has, const struct buf *body, int control,
                         int signals, const sigset_t *old_mask)
{
    const struct driver_kind *kind;

    if (!driver_find(body, &kind) || (kind == NULL && !has->own)) {
        control_send_failed(control, "the box has no interpreter of that language");
        return false;
    }
    pid_t pid = rawfork_plain();
    if (pid < 0) {
        control_send_refused(control, -pid);
        return false;
    }
    if (pid > 0) {
        note_context(0, pid, kind != NULL);
        return false;
    }
    become_context(control, signals, old_mask);
    if (kind != NULL) {
        driver_serve(kind, &has->paths);
    }
    return true;
}

void pid1_serve(const struct pid1_interpreters *has)
{
    static struct buf body = {.max = 65536}; /* reused: PID 1 lives as long as the session */
    struct frame_head head;
    sigset_t mask;
    sigset_t old_mask;
    bool all_reaped = true;

    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    sigprocmask(SIG_BLOCK, &mask, &old_mask);
    int signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || interrupt_open() < 0 ||
        processes_open() < 0 || control_send_ready(BOX_CONTROL_FD) < 0) {
        _exit(1);
    }
    for (;;) {
        struct fd_set_msg fds = {.n = 0};
        struct pollfd p[2 + FILEWORKERS_MAX] = {{.fd = BOX_CONTROL_FD, .events = POLLIN},
                                                {.fd = signals, .events = POLLIN}};
        fileworkers_watch(p + 2);
        int timeout = all_reaped ? fileworkers_timeout() : 0;
        if (poll(p, ARRAY_LEN(p), timeout) < 0 && errno != EINTR) {
            _exit(1);
        }
        fileworkers_serve(p + 2);
        if ((p[1].revents & POLLIN) != 0 || !all_reaped) {
            all_reaped = reap(signals);
        }
        if (p[0].revents == 0) {
            continue;
        }
        if (control_recv(BOX_CONTROL_FD, &head, &body, &fds) <= 0) {
            _exit(0); /* the holder of the session is gone */
        }
        if (head.type == FRAME_CONTEXT && fds.n == 1 &&
            fork_context(has, &body, fds.fds[0], signals, &old_mask)) {
            return;
        }
        if (head.type == FRAME_SIGNAL) {
            pass_signal(&head, &body);
        } else if (head.type == FRAME_PING) {
            repeat_fate(&body);
        } else if (head.type == FRAME_SWEEP) {
            serve_sweep(&body);
        } else if (head.type == FRAME_FILES && fds.n == 1) {
            fileworkers_start(take_fd(&fds.fds[0]));
        }
        fd_set_release(&fds);
    }
}
