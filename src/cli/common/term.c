/* SPDX-License-Identifier: Apache-2.0 */
/* Output to the user; see term.h. Must not buffer across calls: output is streamed. */
#include "cli/common/term.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"

#define CHUNK 4096
#define SHOWN_MAX 20 /* four bytes as \xNN, and a NUL */

struct chunk {
    char data[CHUNK];
    size_t n;
};

int term_guard_stdio(void)
{
    int fd;

    do {
        fd = open("/dev/null", O_RDONLY | O_CLOEXEC); /* gets the lowest free number */
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd < 0) {
        return -errno;
    }
    close(fd);
    return 0;
}

void term_out_init(struct term_out *o, int fd, bool raw)
{
    *o = (struct term_out){.fd = fd, .filter = !raw && isatty(fd) == 1};
}

/* Like fd_write_all(), but waits if another program made the shared descriptor non-blocking. */
static int write_patiently(int fd, const char *data, size_t n)
{
    while (n > 0) {
        ssize_t w = write(fd, data, n);

        if (w < 0 && errno == EAGAIN) {
            struct pollfd p = {.fd = fd, .events = POLLOUT};
            (void)poll(&p, 1, -1); /* the next write() reports an error */
        } else if (w < 0 && errno != EINTR) {
            return -errno;
        } else if (w == 0) {
            return -EIO;
        } else if (w > 0) {
            data += w;
            n -= (size_t)w;
        }
    }
    return 0;
}

static void write_raw(struct term_out *o, const char *data, size_t n)
{
    if (o->error != 0 || n == 0) {
        return;
    }
    o->error = write_patiently(o->fd, data, n);
    o->mid_line = data[n - 1] != '\n';
}

static void chunk_flush(struct term_out *o, struct chunk *c)
{
    write_raw(o, c->data, c->n);
    c->n = 0;
}

static void chunk_show(struct term_out *o, struct chunk *c, const char *p, size_t n)
{
    if (c->n + SHOWN_MAX > sizeof(c->data)) {
        chunk_flush(o, c);
    }
    str_printable(c->data + c->n, sizeof(c->data) - c->n, p, n);
    c->n += strlen(c->data + c->n);
}

/* True if more bytes could make these a UTF-8 sequence. */
static bool is_begun(const char *p, size_t n)
{
    unsigned char lead = (unsigned char)p[0];
    size_t want = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;

    if (lead < 0xc2 || lead > 0xf4 || n >= want) {
        return false;
    }
    for (size_t i = 1; i < n; i++) {
        if (((unsigned char)p[i] & 0xc0) != 0x80) {
            return false;
        }
    }
    return true;
}

/* Shows held bytes that are complete: whole characters, and bytes that cannot begin one. */
static void settle(struct term_out *o, struct chunk *c, bool last)
{
    while (o->n_held > 0) {
        size_t len = str_utf8_len(o->held, o->n_held);

        if (len == 0 && !last && is_begun(o->held, o->n_held)) {
            return;
        }
        size_t step = len == 0 ? 1 : len;
        chunk_show(o, c, o->held, step);
        o->n_held -= step;
        memmove(o->held, o->held + step, o->n_held);
    }
}

void term_out_write(struct term_out *o, const char *data, size_t n)
{
    struct chunk c = {.n = 0};

    if (!o->filter) {
        write_raw(o, data, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        o->held[o->n_held++] = data[i];
        settle(o, &c, false);
    }
    chunk_flush(o, &c);
}

void term_out_end(struct term_out *o)
{
    struct chunk c = {.n = 0};

    settle(o, &c, true);
    chunk_flush(o, &c);
}

void term_out_line_end(struct term_out *o)
{
    term_out_end(o);
    if (o->mid_line) {
        write_raw(o, "\n", 1);
    }
}

void term_out_code(struct term_out *o, const char *code)
{
    bool mid_line = o->mid_line;

    term_out_end(o);
    write_raw(o, code, strlen(code));
    o->mid_line = mid_line;
}

bool term_has_color(int fd)
{
    const char *no_color = getenv("NO_COLOR");
    const char *term = getenv("TERM");

    if (no_color != NULL && no_color[0] != '\0') {
        return false;
    }
    return isatty(fd) == 1 && (term == NULL || !str_eq(term, "dumb"));
}

void term_say(const char *program, const char *fmt, ...)
{
    char text[1024];
    char line[2048];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    for (char *p = strchr(text, '\n'); p != NULL; p = strchr(p, '\n')) {
        *p = ' ';
    }

    int n = snprintf(line, sizeof(line) - 1, "%s: ", program);
    str_printable(line + n, sizeof(line) - 1 - (size_t)n, text, strlen(text));
    size_t len = strlen(line);
    line[len++] = '\n';
    (void)fd_write_all(STDERR_FILENO, line, len); /* a closed stderr cannot be reported */
}
