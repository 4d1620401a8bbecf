/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output of children; see output.h. Must not block, and must not write to a place that a child
 * chooses.
 */
#include "supervisor/output.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "supervisor/place.h"

#define FINISH_READS 16 /* more than any pipe holds */
#define SHOWN_MAX 4096  /* a pipe that is writable takes this much (PIPE_BUF) */
#define JSON_START "{\"time\":\""
#define CHECK_BYTES (64U << 10) /* between two checks of the log's size */

int output_open(struct output *o, const char *name, struct err *e)
{
    int p[2];

    *o = (struct output){
        .name = name, .ours = -1, .theirs = -1, .budget = OUTPUT_BURST, .filled = clock_ms()};
    if (pipe2(p, O_CLOEXEC) < 0) {
        return err_sys(e, errno, "pipe");
    }
    o->ours = p[0];
    o->theirs = p[1];
    int r = fd_set_nonblock(o->ours, true);
    return r < 0 ? err_sys(e, -r, "pipe") : 0;
}

void output_close(struct output *o)
{
    if (o->name != NULL) {
        fd_close(&o->ours);
        fd_close(&o->theirs);
    }
}

/* ---- the sink ---- */

bool output_sink_takes(void)
{
    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};

    return poll(&p, 1, 0) != 0; /* a broken one takes everything */
}

/* The log file must not fill the disk: it is renamed, or emptied if that fails. */
static void rotate(const struct output_sink *sink)
{
    struct err e = {0};
    int fd = place_rotate_log(sink->folder, sink->config, &e);

    if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0) {
        (void)!ftruncate(STDERR_FILENO, 0);
        log_error("log_not_renamed", "%s; emptied instead", fd < 0 ? e.msg : strerror(errno));
    }
    fd_close(&fd);
}

static void keep_small(struct output_sink *sink, size_t written)
{
    struct stat st;

    sink->unchecked += written;
    if (sink->folder < 0 || sink->unchecked < CHECK_BYTES) {
        return;
    }
    sink->unchecked = 0;
    if (fstat(STDERR_FILENO, &st) == 0 && st.st_size > (off_t)OUTPUT_LOG_MAX) {
        rotate(sink);
    }
}

/* As our own programs write it (base/log.c): one object, whole. */
static bool is_json(const char *text, size_t n, bool is_cut)
{
    return !is_cut && n > sizeof(JSON_START) &&
           strncmp(text, JSON_START, strlen(JSON_START)) == 0 && text[n - 1] == '}';
}

static void emit(struct output_sink *sink, const char *name, const char *text, size_t n,
                 bool is_cut)
{
    static const char cut[] = " [cut]";
    char shown[SHOWN_MAX];

    str_printable(shown, sizeof(shown) - sizeof(cut) - 1, text, n);
    if (log_is_json() && !is_json(text, n, is_cut)) {
        log_warn("output", "source=%s: %s", name, shown); /* of a library, or of the launcher */
        keep_small(sink, n);
        return;
    }
    size_t len = strlen(shown);
    if (is_cut) {
        memcpy(shown + len, cut, sizeof(cut) - 1);
        len += sizeof(cut) - 1;
    }
    shown[len++] = '\n';
    (void)fd_write_all(STDERR_FILENO, shown, len); /* a closed stderr cannot be reported */
    keep_small(sink, len);
}

/* ---- lines ---- */

static void refill(struct output *o)
{
    uint64_t now = clock_ms();
    uint64_t fresh = MIN(now - o->filled, 60000u) * OUTPUT_RATE / 1000;

    if (fresh > 0) {
        o->budget = MIN(o->budget + fresh, OUTPUT_BURST);
        o->filled = now;
    }
}

static void tell_dropped(struct output *o)
{
    if (o->dropped > 0) {
        log_warn("output_dropped",
                 "source=%s lines=%" PRIu64 ": more than %" PRIu64 " KiB per second, ignoring",
                 o->name, o->dropped, OUTPUT_RATE >> 10);
        o->dropped = 0;
    }
}

/* False: stderr is full, and the line stays. */
static bool end_line(struct output *o, struct output_sink *sink)
{
    size_t cost = o->n + 1;

    if (o->budget < cost) {
        o->dropped++;
    } else if (!output_sink_takes()) {
        return false;
    } else {
        o->budget -= cost;
        tell_dropped(o);
        emit(sink, o->name, o->line, o->n, o->skips);
    }
    o->n = 0;
    o->skips = false;
    return true;
}

/* Passes on what was read, until there is no more or stderr is full. */
static void pass_on(struct output *o, struct output_sink *sink)
{
    for (; o->at < o->have; o->at++) {
        char c = o->bytes[o->at];

        if (c == '\n') {
            if (!end_line(o, sink)) {
                return;
            }
        } else if (o->n == sizeof(o->line)) {
            o->skips = true;
        } else {
            o->line[o->n++] = c;
        }
    }
}

bool output_pump(struct output *o, struct output_sink *sink)
{
    if (o->name == NULL) {
        return false;
    }
    refill(o);
    pass_on(o, sink);
    if (o->at < o->have) {
        return false;
    }
    ssize_t n = read(o->ours, o->bytes, sizeof(o->bytes));
    if (n <= 0) {
        return false;
    }
    o->at = 0;
    o->have = (size_t)n;
    pass_on(o, sink);
    return true;
}

void output_finish(struct output *o, struct output_sink *sink)
{
    for (int i = 0; i < FINISH_READS && output_pump(o, sink); i++) {
    }
    if (o->name != NULL && o->at == o->have && o->n > 0) {
        (void)end_line(o, sink);
    }
    tell_dropped(o);
}
