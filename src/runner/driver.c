/* SPDX-License-Identifier: Apache-2.0 */
/* The loop of a driver: one RUN after the other; see driver.h. */
#include "runner/driver.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "box/setup.h"
#include "runner/control.h"
#include "runner/driver_impl.h"
#include "runner/files.h"
#include "runner/interrupt.h"
#include "runner/rawfork.h"

#define EXIT_NOT_STARTED 126 /* as in shells */
#define NUDGE_MS 50          /* between two looks whether a run that was signalled goes on */

bool driver_find(const struct buf *body, const struct driver_kind **ret)
{
    static const struct driver_kind *const kinds[] = {&driver_shell, &driver_command, &driver_node};
    struct frame_field f;

    *ret = NULL;
    for (size_t at = 0; frame_next(body->data, body->len, &at, &f) > 0;) {
        if (f.key != KEY_NAME) {
            continue;
        }
        for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
            if (strlen(kinds[i]->name) == f.len && memcmp(kinds[i]->name, f.data, f.len) == 0) {
                *ret = kinds[i];
                return true;
            }
        }
        return false;
    }
    return true;
}

/* Ends as the interpreter has ended: PID 1 reports that. */
static void NORETURN end_as(int status)
{
    if (WIFSIGNALED(status)) {
        struct sigaction action = {.sa_handler = SIG_DFL};
        sigset_t none;
        sigemptyset(&none);
        (void)sigaction(WTERMSIG(status), &action, NULL);
        sigprocmask(SIG_SETMASK, &none, NULL);
        (void)kill(getpid(), WTERMSIG(status));
    }
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

/* ---- a run ---- */

/* An answer without the interpreter's help. */
static void answer(struct driver *d, uint32_t code, const char *type, const char *message)
{
    (void)frame_add_u32(&d->done, KEY_EXIT, code);
    (void)frame_add_str(&d->done, KEY_ERROR_TYPE, type);
    (void)frame_add_str(&d->done, KEY_ERROR_MESSAGE, message);
}

static int put_files(const struct buf *body, struct err *e)
{
    struct frame_field f;

    for (size_t at = 0; frame_next(body->data, body->len, &at, &f) > 0;) {
        if (f.key == KEY_PUT && files_put(&f, e) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Until the interpreter has answered. One that ends instead takes the driver along. */
static void await_answer(struct driver *d)
{
    enum driver_news news;

    while ((news = d->kind->hear(d)) == DRIVER_NOTHING) {
        if (!driver_exchange(d, driver_was_signalled() ? NUDGE_MS : -1) && d->kind->start != NULL) {
            end_as(d->status);
        }
    }
    if (news == DRIVER_BROKEN) {
        driver_kill(d);
        end_as(SIGKILL);
    }
}

static void run(struct driver *d, const struct buf *body)
{
    struct err e = {0};

    if (interrupt_begin(d->run.token)) {
        answer(d, DRIVER_EXIT_INTERRUPTED, "KeyboardInterrupt", "");
        return;
    }
    if (put_files(body, &e) < 0 || d->kind->begin(d, body, &e) < 0) {
        answer(d, EXIT_NOT_STARTED, "OSError", e.msg);
        return;
    }
    await_answer(d);
}

static void close_stdio(struct driver *d)
{
    for (size_t i = 0; i < DRIVER_STDIO; i++) {
        fd_close(&d->stdio[i]);
    }
}

/* What the client asked for beside the run itself: files, and names of changed files. */
static void add_extras(struct driver *d, const struct buf *body, uint64_t since)
{
    struct frame_field f;

    for (size_t at = 0; frame_next(body->data, body->len, &at, &f) > 0;) {
        if (f.key == KEY_GET) {
            (void)files_send(BOX_CONTROL_FD, &d->run, &f);
        } else if (f.key == KEY_ARTIFACTS) {
            AUTO_BUF struct buf names = BUF_INIT(FRAME_ARTIFACTS_MAX);
            artifacts_since(since, &names);
            (void)frame_add(&d->done, KEY_ARTIFACTS, names.data, names.len);
        }
    }
}

static void serve_run(struct driver *d, const struct buf *body, struct fd_set_msg *fds)
{
    uint64_t since = artifacts_now();

    d->number++;
    for (size_t i = 0; i < DRIVER_STDIO; i++) {
        d->stdio[i] = fds->n == DRIVER_STDIO ? take_fd(&fds->fds[i]) : -1;
    }
    d->done.len = 0;
    if (frame_begin(&d->done, FRAME_DONE, d->run.token) < 0) {
        _exit(1);
    }
    driver_forget_signal();
    d->is_open = true;
    run(d, body);
    d->is_open = false;
    close_stdio(d);
    if (interrupt_end() && d->kind->settle != NULL) {
        d->kind->settle(d);
    }
    add_extras(d, body, since);
    if (frame_end(&d->done) < 0 || control_send(BOX_CONTROL_FD, &d->done) < 0) {
        _exit(1);
    }
    buf_release(&d->done);
}

/* ---- copies ---- */

/* A process between us and the copy ends at once: PID 1 is the copy's parent then. True in it. */
static bool fork_copy(int control)
{
    pid_t between = rawfork_plain();

    if (between == 0) {
        pid_t copy = rawfork_plain();
        if (copy == 0) {
            return true;
        }
        if (copy < 0) {
            control_send_refused(control, -copy);
        }
        _exit(0);
    }
    if (between < 0) {
        control_send_refused(control, -between);
    }
    while (between > 0 && waitpid(between, NULL, 0) < 0 && errno == EINTR) {
    }
    return false;
}

/* In the copy: a control socket, a group and an interpreter of its own. */
static void become_copy(struct driver *d, int control, int state)
{
    struct err e = {0};

    driver_close_link(d);
    d->pid = 0;
    d->number = 0;
    if (dup3(control, BOX_CONTROL_FD, O_CLOEXEC) < 0) {
        _exit(1);
    }
    setpgid(0, 0);
    interrupt_attach();
    if (d->kind->copy(d, state, &e) < 0) {
        control_send_failed(BOX_CONTROL_FD, e.msg);
        _exit(1);
    }
    (void)control_send_ready(BOX_CONTROL_FD);
}

static void serve_branch(struct driver *d, int control)
{
    AUTO_CLOSE int state = memfd_create("state", MFD_CLOEXEC);
    struct err e = {0};

    if (d->kind->copy == NULL) {
        control_send_failed(control, "an interpreter of this language cannot be copied");
        return;
    }
    if (state < 0 || d->kind->save(d, state, &e) < 0) {
        control_send_failed(control, state < 0 ? "out of memory" : e.msg);
        if (d->pid == 0) {
            end_as(d->status);
        }
        return;
    }
    if (fork_copy(control)) {
        become_copy(d, control, state);
    }
}

/* ---- the loop ---- */

/* Until there is a request. What an idle interpreter says is dropped; its end is ours. */
static void await_request(struct driver *d)
{
    struct pollfd p[] = {{.fd = BOX_CONTROL_FD, .events = POLLIN},
                         {.fd = d->link, .events = POLLIN},
                         {.fd = d->signals, .events = POLLIN}};

    while (p[0].revents == 0) {
        p[1].fd = d->link; /* the interpreter may have closed it */
        if (poll(p, ARRAY_LEN(p), -1) < 0 && errno != EINTR) {
            _exit(1);
        }
        if ((p[1].revents != 0 || p[2].revents != 0) && !driver_exchange(d, 0) &&
            d->kind->start != NULL) {
            end_as(d->status);
        }
        (void)d->kind->hear(d);
    }
}

static void serve(struct driver *d)
{
    struct buf body = BUF_INIT(FRAME_TO_BOX_MAX);

    for (;;) {
        struct fd_set_msg fds = {.n = 0};
        await_request(d);
        if (control_recv(BOX_CONTROL_FD, &d->run, &body, &fds) <= 0) {
            _exit(0); /* the holder of the session is gone */
        }
        if (d->run.type == FRAME_RUN) {
            serve_run(d, &body, &fds);
        } else if (d->run.type == FRAME_BRANCH && fds.n == 1) {
            serve_branch(d, fds.fds[0]);
        }
        fd_set_release(&fds);
        buf_release(&body); /* one large upload must not stay in a session's memory */
    }
}

void driver_serve(const struct driver_kind *kind, const struct driver_paths *paths)
{
    bool is_node = kind == &driver_node;
    const char *own = is_node ? paths->javascript : paths->shell;
    struct driver d = {
        .kind = kind,
        .path = own != NULL ? own
                : is_node   ? "/usr/bin/node"
                            : "/bin/bash",
        .link = -1,
        .out = BUF_INIT(2 * FRAME_TO_BOX_MAX),
        .in = BUF_INIT(FRAME_FROM_BOX_MAX + 4096),
        .done = BUF_INIT(FRAME_FROM_BOX_MAX),
        .stdio = {-1, -1, -1},
        .script = -1,
    };
    struct err e = {0};

    if (driver_watch_signals(&d) < 0) {
        control_send_failed(BOX_CONTROL_FD, "cannot watch the interpreter");
        _exit(1);
    }
    if (access(d.path, X_OK) < 0) {
        const char *slash = strrchr(d.path, '/');
        (void)err_set(&e, ERR_TEMPLATE, "the box has no %s", slash != NULL ? slash + 1 : d.path);
    } else if (kind->start != NULL) {
        (void)kind->start(&d, &e);
    }
    if (e.code != ERR_NONE) {
        control_send_failed(BOX_CONTROL_FD, e.msg);
        _exit(1);
    }
    if (control_send_ready(BOX_CONTROL_FD) < 0) {
        _exit(1);
    }
    serve(&d);
    _exit(0);
}
