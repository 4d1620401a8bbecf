/* SPDX-License-Identifier: Apache-2.0 */
/* PID 1 around an interpreter; see program.h. */
#include "runner/program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/str.h"
#include "box/setup.h"
#include "runner/control.h"
#include "runner/files.h"

#define LINK_FD 4      /* a prestarted interpreter's socket to PID 1 */
#define OWN_ARGS_MAX 8 /* the interpreter, its options, the code, its name, NULL */
#define ARGS_MAX 65536
#define INLINE_CODE_MAX 100000 /* the kernel takes no single argument of 128 KiB */
#define SCRIPT_PATH "/tmp/.script"
#define RELAY_CHUNK 65536
#define EXIT_NOT_STARTED 126 /* as in shells */

struct run {
    struct frame_head head;
    struct buf body;
    struct frame_field code;
    struct frame_field name;
};

static const uint8_t *run_token; /* NULL until a run was taken */

/* A run that could not be started: reported as its result. */
static void refuse_run(const char *message)
{
    AUTO_BUF struct buf done = BUF_INIT(4096);

    if (frame_begin(&done, FRAME_DONE, run_token) == 0 &&
        frame_add_u32(&done, KEY_EXIT, EXIT_NOT_STARTED) == 0 &&
        frame_add_str(&done, KEY_ERROR_TYPE, "OSError") == 0 &&
        frame_add_str(&done, KEY_ERROR_MESSAGE, message) == 0 && frame_end(&done) == 0) {
        (void)control_send(BOX_CONTROL_FD, &done);
    }
}

static void fail(const char *message)
{
    if (run_token == NULL) {
        control_send_failed(BOX_CONTROL_FD, message);
    } else {
        refuse_run(message);
    }
    _exit(EXIT_NOT_STARTED);
}

/* The interpreter's process, just forked. */
static void become_program(char *const *argv, int link)
{
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpgid(0, 0);
    if (link >= 0 && dup3(link, LINK_FD, 0) < 0) {
        _exit(126);
    }
    execv(argv[0], argv);
    dprintf(STDERR_FILENO, "husk: cannot start %s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

static pid_t start_program(char *const *argv, int link)
{
    pid_t pid = fork();

    if (pid < 0) {
        fail("cannot fork the interpreter: too many processes for the box");
    }
    if (pid == 0) {
        become_program(argv, link);
    }
    return pid;
}

static char *field_string(const struct frame_field *f)
{
    char *s = malloc((size_t)f->len + 1);

    if (s == NULL) {
        fail("out of memory while reading the request");
    }
    memcpy(s, f->data, f->len);
    s[f->len] = '\0';
    return s;
}

/* Takes over what PID 1 itself applies: files, environment; remembers code and name. */
static void apply(struct run *run)
{
    struct frame_field f;
    struct err e;

    for (size_t at = 0; frame_next(run->body.data, run->body.len, &at, &f) > 0;) {
        switch (f.key) {
        case KEY_PUT:
            if (files_put(&f, &e) < 0) {
                fail(e.msg);
            }
            break;
        case KEY_ENV:
            if (putenv(field_string(&f)) != 0) {
                fail("an environment variable is not NAME=value");
            }
            break;
        case KEY_CODE:
            run->code = f;
            break;
        case KEY_NAME:
            run->name = f;
            break;
        default:
            break;
        }
    }
}

static void write_script(const struct frame_field *code)
{
    int fd = open(SCRIPT_PATH, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd < 0 || fd_write_all(fd, code->data, code->len) < 0) {
        fail("the code does not fit on the box's disk");
    }
    close(fd);
}

/* "bash -c CODE NAME ARGS...", or a script file when the code is too long for an argument. */
static char *const *build_argv(const struct program *p, const struct run *run)
{
    static char *argv[OWN_ARGS_MAX + ARGS_MAX];
    size_t n = 0;
    struct frame_field f;

    while (n < 4 && p->argv[n] != NULL) {
        argv[n] = p->argv[n];
        n++;
    }
    if (run->code.len <= INLINE_CODE_MAX && memchr(run->code.data, '\0', run->code.len) == NULL) {
        argv[n++] = "-c";
        argv[n++] = field_string(&run->code);
        argv[n++] = run->name.data != NULL ? field_string(&run->name) : "bash";
    } else {
        write_script(&run->code);
        argv[n++] = SCRIPT_PATH;
    }
    for (size_t at = 0; frame_next(run->body.data, run->body.len, &at, &f) > 0;) {
        if (f.key == KEY_ARG && n == ARRAY_LEN(argv) - 1) {
            fail("too many arguments"); /* it must not run with fewer */
        }
        if (f.key == KEY_ARG) {
            argv[n++] = field_string(&f);
        }
    }
    argv[n] = NULL;
    return argv;
}

/* Reads a part of the interpreter's report. False: it is complete. */
static bool take_report(int link, struct buf *said)
{
    char chunk[RELAY_CHUNK];

    ssize_t n = recv(link, chunk, sizeof(chunk), MSG_DONTWAIT);
    if (n <= 0) {
        return n < 0 && (errno == EAGAIN || errno == EINTR);
    }
    (void)buf_add(said, chunk, (size_t)n); /* beyond the maximum it is read and dropped */
    return true;
}

/* Reaps the dead, orphans included. True with *status once pid is among them. */
static bool reap(pid_t pid, int *status)
{
    pid_t got;
    int how;

    while ((got = waitpid(-1, &how, WNOHANG)) > 0) {
        if (got == pid) {
            *status = how;
            return true;
        }
    }
    return got < 0 && errno == ECHILD;
}

/* Waits for the interpreter and reads its report meanwhile: a large one must not block it. */
static int wait_for(pid_t pid, int link, int signals, struct buf *said)
{
    struct signalfd_siginfo drain[4];
    int status = 0;

    for (;;) {
        struct pollfd p[2] = {{.fd = signals, .events = POLLIN}, {.fd = link, .events = POLLIN}};
        if (reap(pid, &status)) {
            break;
        }
        if (poll(p, 2, -1) < 0 && errno != EINTR) {
            break;
        }
        if (p[1].revents != 0 && !take_report(link, said)) {
            link = -1;
        }
        while (read(signals, drain, sizeof(drain)) > 0) {
        }
    }
    for (size_t before = SIZE_MAX; link >= 0 && said->len != before;) {
        before = said->len;
        (void)take_report(link, said);
    }
    return status;
}

/* The interpreter reports values and errors, but not how it ended. */
static void relay_report(const struct buf *said, struct buf *done)
{
    struct frame_field f;

    for (size_t at = 0; frame_next(said->data, said->len, &at, &f) > 0;) {
        if (f.key >= KEY_VALUE && f.key <= KEY_TRACEBACK) {
            (void)frame_add(done, f.key, f.data, f.len);
        }
    }
}

static void finish(const struct run *run, int status, const struct buf *said)
{
    struct buf done = BUF_INIT(FRAME_FROM_BOX_MAX);
    struct frame_field f;
    int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);

    for (size_t at = 0; frame_next(run->body.data, run->body.len, &at, &f) > 0;) {
        if (f.key == KEY_GET) {
            (void)files_send(BOX_CONTROL_FD, &run->head, &f);
        }
    }
    if (frame_begin(&done, FRAME_DONE, run->head.token) < 0 ||
        frame_add_u32(&done, KEY_EXIT, (uint32_t)code) < 0) {
        _exit(1);
    }
    if (WIFSIGNALED(status)) {
        (void)frame_add_u32(&done, KEY_SIGNAL, (uint32_t)WTERMSIG(status));
    }
    relay_report(said, &done);
    (void)frame_end(&done);
    (void)control_send(BOX_CONTROL_FD, &done);
    /* Sleep until the launcher ends the box: what ran is then fully counted. */
    struct frame_head head;
    struct fd_set_msg fds = {.n = 0};
    (void)control_recv(BOX_CONTROL_FD, &head, &done, &fds);
    _exit(code);
}

void program_serve(const struct program *p)
{
    struct run run = {.body = BUF_INIT(FRAME_TO_BOX_MAX)};
    struct fd_set_msg fds = {.n = 0};
    struct buf said = BUF_INIT(FRAME_FROM_BOX_MAX);
    int link[2] = {-1, -1};
    pid_t pid = -1;
    sigset_t child;

    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, NULL);
    int signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0) {
        fail("cannot watch the interpreter");
    }

    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) {
        fail("cannot protect PID 1");
    }
    if (p->prestart) {
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, link) < 0) {
            fail("cannot connect to the interpreter");
        }
        pid = start_program(p->argv, link[1]);
        close(link[1]);
    }
    if (control_send_ready(BOX_CONTROL_FD) < 0 ||
        control_recv(BOX_CONTROL_FD, &run.head, &run.body, &fds) <= 0) {
        _exit(0);
    }
    fd_set_release(&fds);
    run_token = run.head.token;
    apply(&run);
    if (p->prestart) {
        uint32_t len = (uint32_t)run.body.len;
        if (fd_write_all(link[0], &len, sizeof(len)) < 0 ||
            fd_write_all(link[0], run.body.data, run.body.len) < 0) {
            /* It died early; waitpid() below tells how. */
            len = 0;
        }
    } else {
        pid = start_program(build_argv(p, &run), -1);
    }
    int status = wait_for(pid, link[0], signals, &said);
    finish(&run, status, &said);
    _exit(1);
}
