/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A shell as a context: an interactive bash without a terminal.
 *
 * Only an interactive shell survives an interrupt, a syntax error or an unset variable, and goes on
 * with the next command. Its commands come from descriptor 0, the link. A cell is one command,
 *
 *     NAME='value' \eval 'CODE' </proc/P/fd/5 >/proc/P/fd/6 2>/proc/P/fd/7
 *     __husk 12 $?
 *
 * so code sees neither the link nor ours of its variables: bash holds descriptor 0 close-on-exec
 * while eval runs, and variables before a command exist as long as it runs. The second line reports
 * the exit code. bash reads it also when the first one was interrupted.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "runner/driver_impl.h"

#define LINK_FD 0
#define SESSION "/husk/runtimes/shell/session.sh"
#define SAVE "/husk/runtimes/shell/save.sh"
#define ARGUMENT_MAX 100000 /* the kernel takes no single argument of 128 KiB */
#define ARGS_MAX 300
#define NUDGE_FIRST_MS 100u
#define NUDGE_FACTOR 3u
#define LINE_MAX_BYTES 64 /* of a report */

/* The texts of a command are never freed: see spawn_command(). */
#if defined(__GNUC__) && !defined(__clang__)
#    pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

static uint32_t asked; /* number of the last report that was asked for */
static struct {
    uint64_t at; /* ms; 0: not yet */
    uint64_t pause;
} nudge;

/* ---- text for a shell ---- */

static int add_quoted(struct buf *b, const char *s, size_t n)
{
    int r = buf_add(b, "'", 1);

    for (size_t i = 0; r == 0 && i < n;) {
        const char *quote = memchr(s + i, '\'', n - i);
        size_t part = quote != NULL ? (size_t)(quote - s) - i : n - i;
        r = buf_add(b, s + i, part);
        if (r == 0 && quote != NULL) {
            r = buf_add_str(b, "'\\''");
        }
        i += part + (quote != NULL);
    }
    return r < 0 ? r : buf_add(b, "'", 1);
}

static bool is_name(const char *s, size_t n)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";

    for (size_t i = 0; i < n; i++) {
        if (s[i] == '\0' || strchr(allowed, s[i]) == NULL) {
            return false;
        }
    }
    return n > 0 && (s[0] < '0' || s[0] > '9');
}

/* NAME='value', with a space behind it. */
static int add_variable(struct buf *b, const struct frame_field *f, struct err *e)
{
    const char *equals = memchr(f->data, '=', f->len);
    size_t name = equals != NULL ? (size_t)(equals - f->data) : f->len;

    if (equals == NULL || !is_name(f->data, name)) {
        return err_set(e, ERR_INVALID, "%.*s cannot be the name of a shell's variable",
                       (int)MIN(name, (size_t)100), f->data);
    }
    if (buf_add(b, f->data, name + 1) < 0 || add_quoted(b, equals + 1, f->len - name - 1) < 0 ||
        buf_add(b, " ", 1) < 0) {
        return err_sys(e, ENOMEM, "cell");
    }
    return 0;
}

/* "< /proc/P/fd/5 > ..." */
static int add_redirections(struct buf *b, const struct driver *d)
{
    static const char *const signs[] = {" <", " >", " 2>"};
    int r = 0;

    for (int i = 0; i < DRIVER_STDIO && r == 0; i++) {
        r = d->stdio[i] < 0
                ? buf_printf(b, "%s/dev/null", signs[i])
                : buf_printf(b, "%s/proc/%d/fd/%d", signs[i], (int)getpid(), d->stdio[i]);
    }
    return r;
}

static int ask_report(struct buf *b)
{
    nudge.at = 0;
    return buf_printf(b, "\n__husk %u $?\n", ++asked);
}

/* ---- reports ---- */

/* True with the exit code that the shell has reported for what was asked last. */
static bool take_report(struct driver *d, uint32_t *ret)
{
    char *end;

    while (d->in.len > 0 && (end = memchr(d->in.data, '\n', d->in.len)) != NULL) {
        char line[LINE_MAX_BYTES] = "";
        size_t n = (size_t)(end - d->in.data);
        memcpy(line, d->in.data, MIN(n, sizeof(line) - 1));
        buf_consume(&d->in, n + 1);
        char *rest = NULL;
        if (strtoul(line, &rest, 10) == asked && rest != line) {
            *ret = (uint32_t)strtoul(rest, NULL, 10) & 0xff;
            return true;
        }
    }
    return false;
}

/*
 * A signal that hits while bash reads the line that asks for the report takes that line away. One
 * that hits a command while it is forked is lost, and bash ignores its own if the command that it
 * waits for ends without one. So all of it is repeated; bash's own last, for a trap would see it.
 * An answer that comes twice does no harm.
 */
static void ask_again(struct driver *d)
{
    uint64_t now = clock_ms();

    if (nudge.at == 0) {
        nudge.pause = NUDGE_FIRST_MS;
        nudge.at = now + nudge.pause;
    } else if (now >= nudge.at) {
        driver_signal_again();
        if (nudge.pause > NUDGE_FIRST_MS) {
            (void)kill(d->pid, SIGINT);
        }
        (void)buf_printf(&d->out, "\n__husk %u %d\n", asked, DRIVER_EXIT_INTERRUPTED);
        nudge.pause *= NUDGE_FACTOR;
        nudge.at = now + nudge.pause;
    }
}

static enum driver_news hear(struct driver *d)
{
    uint32_t code;

    if (take_report(d, &code)) {
        if (d->is_open) {
            (void)frame_add_u32(&d->done, KEY_EXIT, code);
        }
        return DRIVER_OVER;
    }
    if (d->is_open && driver_was_signalled()) {
        ask_again(d);
    }
    return DRIVER_NOTHING;
}

/* Waits for the report. -1: the shell has ended, or says that it failed. */
static int await_report(struct driver *d, const char *what, struct err *e)
{
    uint32_t code;

    while (!take_report(d, &code)) {
        if (!driver_exchange(d, -1)) {
            return err_set(e, ERR_TEMPLATE, "%s: %s has ended", what, d->path);
        }
    }
    return code == 0 ? 0 : err_set(e, ERR_TEMPLATE, "%s: %s says %u", what, d->path, code);
}

static int start(struct driver *d, struct err *e)
{
    char *argv[] = {drop_const(d->path), "--norc", "--noprofile", "--noediting", "+H", "-i", NULL};

    if (driver_spawn(d, argv, LINK_FD, e) < 0) {
        return -1;
    }
    if (buf_add_str(&d->out, ". " SESSION) < 0 || ask_report(&d->out) < 0) {
        return err_sys(e, ENOMEM, "start a shell");
    }
    return await_report(d, "a session in shell needs bash", e);
}

/* ---- cells ---- */

static int add_arguments(struct buf *b, const struct buf *body)
{
    struct frame_field f;
    bool any = false;
    int r = 0;

    for (size_t at = 0; r == 0 && frame_next(body->data, body->len, &at, &f) > 0;) {
        if (f.key != KEY_ARG) {
            continue;
        }
        r = any ? 0 : buf_add_str(b, "__husk_args=(\"$@\"); \\set --");
        any = true;
        if (r == 0 && (r = buf_add(b, " ", 1)) == 0) {
            r = add_quoted(b, f.data, f.len);
        }
    }
    return r < 0 ? r : any && buf_add(b, "\n", 1) == 0;
}

static int begin(struct driver *d, const struct buf *body, struct err *e)
{
    struct buf *b = &d->out;
    struct frame_field code = {.data = ""};
    struct frame_field f;

    int has_args = add_arguments(b, body);
    for (size_t at = 0; frame_next(body->data, body->len, &at, &f) > 0;) {
        if (f.key == KEY_CODE) {
            code = f;
        } else if (f.key == KEY_ENV && add_variable(b, &f, e) < 0) {
            b->len = 0;
            return -1;
        }
    }
    if (has_args < 0 || buf_add_str(b, "\\eval ") < 0 || add_quoted(b, code.data, code.len) < 0 ||
        add_redirections(b, d) < 0 || ask_report(b) < 0 ||
        (has_args > 0 &&
         buf_add_str(b, "\\set -- \"${__husk_args[@]}\"; \\unset __husk_args\n") < 0)) {
        b->len = 0;
        return err_sys(e, ENOMEM, "cell");
    }
    return 0;
}

static void settle(struct driver *d)
{
    driver_await_signal(d->pid);
}

/* ---- copies ---- */

static int save(struct driver *d, int state, struct err *e)
{
    if (buf_printf(&d->out, ". " SAVE " </dev/null >|/proc/%d/fd/%d", (int)getpid(), state) < 0 ||
        ask_report(&d->out) < 0) {
        return err_sys(e, ENOMEM, "copy a shell");
    }
    return await_report(d, "the shell cannot be copied", e);
}

static int copy(struct driver *d, int state, struct err *e)
{
    if (start(d, e) < 0) {
        return -1;
    }
    if (buf_printf(&d->out, ". /proc/%d/fd/%d", (int)getpid(), state) < 0 ||
        ask_report(&d->out) < 0) {
        return err_sys(e, ENOMEM, "copy a shell");
    }
    return await_report(d, "the copy of a shell did not start", e);
}

const struct driver_kind driver_shell = {
    .name = "shell",
    .start = start,
    .begin = begin,
    .hear = hear,
    .settle = settle,
    .save = save,
    .copy = copy,
};

/* ---- a single command ---- */

/* Where bash finds a script that is too long for an argument. -1: there is no memory. */
static int script_of(const struct frame_field *code)
{
    int fd = memfd_create("command", MFD_CLOEXEC);

    if (fd >= 0 && fd_write_all(fd, code->data, code->len) < 0) {
        fd_close(&fd);
    }
    return fd;
}

/* NULL and *e when memory is gone. */
static char *text_of(const struct frame_field *f, struct err *e)
{
    char *text = strndup(f->len > 0 ? f->data : "", f->len);

    if (text == NULL) {
        (void)err_sys(e, ENOMEM, "take the command");
    }
    return text;
}

/* Its texts are never freed: this process serves one command. */
static int spawn_command(struct driver *d, const struct buf *body, const struct frame_field *code,
                         struct err *e)
{
    static char path[32];
    char *argv[ARGS_MAX + 8] = {drop_const(d->path)};
    AUTO_CLOSE int script = code->len > ARGUMENT_MAX ? script_of(code) : -1;
    size_t n = 1;
    struct frame_field f;

    if (script >= 0) {
        (void)str_format(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), script);
        argv[n++] = path;
    } else {
        argv[n++] = "-c";
        argv[n] = text_of(code, e);
        if (argv[n++] == NULL) {
            return -1;
        }
        argv[n++] = "bash";
    }
    for (size_t at = 0; frame_next(body->data, body->len, &at, &f) > 0;) {
        if (f.key != KEY_ENV && f.key != KEY_ARG) {
            continue;
        }
        char *text = text_of(&f, e);
        if (text == NULL) {
            return -1;
        }
        if (f.key == KEY_ENV) {
            (void)putenv(text);
        } else if (n < ARRAY_LEN(argv) - 1) {
            argv[n++] = text;
        } else {
            return err_set(e, ERR_INVALID, "too many arguments");
        }
    }
    int r = driver_spawn(d, argv, -1, e);
    if (r == 0) {
        d->script = take_fd(&script); /* bash reads it while it runs */
    }
    return r;
}

static int begin_command(struct driver *d, const struct buf *body, struct err *e)
{
    struct frame_field code = {.data = ""};
    struct frame_field f;

    for (size_t at = 0; frame_next(body->data, body->len, &at, &f) > 0;) {
        code = f.key == KEY_CODE ? f : code;
    }
    if (spawn_command(d, body, &code, e) < 0) {
        dprintf(d->stdio[2], "bash: cannot start: %s\n", e->msg);
        return -1;
    }
    return 0;
}

static enum driver_news hear_command(struct driver *d)
{
    if (d->pid != 0 || !d->is_open) {
        return DRIVER_NOTHING;
    }
    int code = WIFSIGNALED(d->status) ? 128 + WTERMSIG(d->status) : WEXITSTATUS(d->status);
    (void)frame_add_u32(&d->done, KEY_EXIT, (uint32_t)code);
    return DRIVER_OVER;
}

const struct driver_kind driver_command = {
    .name = "command",
    .begin = begin_command,
    .hear = hear_command,
};
