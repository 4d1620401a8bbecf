/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Node.js as a context. The link carries frames without a token: RUN and SIGNAL to the interpreter,
 * READY, DISPLAY, DONE and SIGNALLED back (runtimes/node/session.js).
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "box/setup.h"
#include "runner/control.h"
#include "runner/driver_impl.h"

#define LINK_FD 4
#define SESSION "/husk/runtimes/node/session.js"
#define SETTLE_MS 1000
#define AGAIN_FIRST_MS 100u
#define AGAIN_MS 400u

static bool is_settled;   /* the interpreter has answered */
static uint64_t again_at; /* ms; 0: the run has not been interrupted */

/* 1, 0 or -1: none that we could have sent ourselves. */
static int next_frame(struct driver *d, struct frame_head *head)
{
    if (d->in.len == 0) {
        return 0;
    }
    int r = frame_parse_head(d->in.data, d->in.len, FRAME_FROM_BOX_MAX, head);
    if (r < 0) {
        return -1;
    }
    return r > 0 && d->in.len - sizeof(*head) >= head->len ? 1 : 0;
}

/* A display goes on at once, with the token of the run that shows it. */
static bool pass_on(const struct driver *d, struct frame_head head)
{
    struct buf frame = {.data = d->in.data, .len = sizeof(head) + head.len};

    memcpy(head.token, d->run.token, sizeof(head.token));
    memcpy(frame.data, &head, sizeof(head));
    return control_send(BOX_CONTROL_FD, &frame) == 0;
}

/* It begins with the number of the run that is open. */
static bool is_answer(const struct driver *d, const char *body, size_t len)
{
    struct frame_field f;
    uint32_t number;
    size_t at = 0;

    return d->is_open && frame_next(body, len, &at, &f) > 0 && f.key == KEY_SEQ &&
           frame_field_u32(&f, &number) == 0 && number == d->number;
}

static enum driver_news take_frame(struct driver *d, const struct frame_head *head)
{
    const char *body = d->in.data + sizeof(*head);

    switch (head->type) {
    case FRAME_READY:
        return DRIVER_OVER;
    case FRAME_DISPLAY:
        return !d->is_open || pass_on(d, *head) ? DRIVER_NOTHING : DRIVER_BROKEN;
    case FRAME_SIGNALLED:
        is_settled = true;
        return DRIVER_NOTHING;
    case FRAME_DONE:
        if (!is_answer(d, body, head->len)) {
            return DRIVER_NOTHING; /* user code has answered for an earlier run, before it did */
        }
        return buf_add(&d->done, body, head->len) == 0 ? DRIVER_OVER : DRIVER_BROKEN;
    default:
        return DRIVER_BROKEN;
    }
}

/* A frame whose one field is the number of a run. */
static void send_signal(struct driver *d, uint32_t number)
{
    AUTO_BUF struct buf frame = BUF_INIT(256);

    if (frame_begin(&frame, FRAME_SIGNAL, NULL) == 0 &&
        frame_add_u32(&frame, KEY_SEQ, number) == 0 && frame_end(&frame) == 0) {
        (void)buf_add(&d->out, frame.data, frame.len);
    }
}

/*
 * A run that waits takes the interrupt from the link, one that computes by the signal. The signal
 * is repeated: the run may not have begun when it came, or may have gone on after an await.
 */
static void interrupt_again(struct driver *d)
{
    uint64_t now = clock_ms();

    if (again_at == 0) {
        send_signal(d, d->number);
        again_at = now + AGAIN_FIRST_MS;
    } else if (now >= again_at) {
        driver_signal_again();
        (void)kill(d->pid, SIGINT);
        again_at = now + AGAIN_MS;
    }
}

static enum driver_news hear(struct driver *d)
{
    enum driver_news news = DRIVER_NOTHING;
    struct frame_head head;
    int r = 0;

    while (news == DRIVER_NOTHING && (r = next_frame(d, &head)) > 0) {
        news = take_frame(d, &head);
        buf_consume(&d->in, sizeof(head) + head.len);
    }
    if (news == DRIVER_NOTHING && d->is_open && driver_was_signalled()) {
        interrupt_again(d);
    }
    if (d->in.len == 0) {
        buf_release(&d->in); /* one large result must not stay in a session's memory */
    }
    return r < 0 ? DRIVER_BROKEN : news;
}

static int start(struct driver *d, struct err *e)
{
    char *argv[] = {drop_const(d->path), SESSION, NULL};

    if (driver_spawn(d, argv, LINK_FD, e) < 0) {
        return -1;
    }
    while (hear(d) == DRIVER_NOTHING) {
        if (!driver_exchange(d, -1)) {
            return err_set(e, ERR_TEMPLATE,
                           "a session in JavaScript needs Node.js 18 or newer: %s "
                           "has ended",
                           d->path);
        }
    }
    return 0;
}

/* Everything but files, and the paths of stdin, stdout and stderr. */
static int begin(struct driver *d, const struct buf *body, struct err *e)
{
    struct frame_field f;
    char path[64];
    int r = frame_begin(&d->out, FRAME_RUN, NULL);

    again_at = 0;
    r = r == 0 ? frame_add_u32(&d->out, KEY_SEQ, d->number) : r;
    for (int i = 0; i < DRIVER_STDIO && r == 0; i++) {
        (void)str_format(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), d->stdio[i]);
        r = frame_add_str(&d->out, KEY_DATA, d->stdio[i] < 0 ? "/dev/null" : path);
    }
    for (size_t at = 0; r == 0 && frame_next(body->data, body->len, &at, &f) > 0;) {
        r = f.key != KEY_PUT ? frame_add(&d->out, f.key, f.data, f.len) : 0;
    }
    if (r == 0) {
        r = frame_end(&d->out);
    }
    return r < 0 ? err_sys(e, -r, "cell") : 0;
}

/* Everything that was sent for the run has arrived when the interpreter answers. */
static void settle(struct driver *d)
{
    uint64_t until = clock_ms() + SETTLE_MS;

    driver_await_signal(d->pid);
    is_settled = false;
    send_signal(d, 0);
    for (uint64_t now = clock_ms(); !is_settled && now < until; now = clock_ms()) {
        if (!driver_exchange(d, (int)(until - now))) {
            return; /* the next request finds it so */
        }
        (void)hear(d);
    }
}

const struct driver_kind driver_node = {
    .name = "javascript",
    .needs_link = true,
    .start = start,
    .begin = begin,
    .hear = hear,
    .settle = settle,
};
