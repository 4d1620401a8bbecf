/* SPDX-License-Identifier: Apache-2.0 */
/* Control sockets; see channel.h. */
#include "core/channel.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/fiber.h"

#define READ_CHUNK ((size_t)65536)
#define FIRST_CHUNK 1000 /* most frames are small, and there is a channel for every parked box */
/* for a box that takes nothing; one that runs has its own deadline */
#define SEND_PATIENCE_MS 30000
#define FRAME_PATIENCE_MS 30000    /* from the first part of a frame to its end */
#define KEPT_MOST (2 * READ_CHUNK) /* an inbox that grew beyond this is given back once it can be */

void channel_init(struct channel *c, int fd)
{
    *c = (struct channel){.fd = fd,
                          .inbox =
                              BUF_INIT(FRAME_FROM_BOX_MAX + sizeof(struct frame_head) + READ_CHUNK),
                          .patience_ms = SEND_PATIENCE_MS,
                          .frame_ms = FRAME_PATIENCE_MS};
}

void channel_discard(struct channel *c)
{
    buf_release(&c->inbox);
    budget_credit(c->share, c->charged);
    c->charged = 0;
    c->unread = 0;
    c->begun_ms = 0;
}

void channel_release(struct channel *c)
{
    fd_close(&c->fd);
    channel_discard(c);
}

void channel_keep_small(struct channel *c)
{
    budget_credit(c->share, c->charged);
    c->share = NULL;
    c->inbox.max = sizeof(struct frame_head) + KEPT_MOST;
}

/* Pays for the pages that the inbox touches for the first time. */
static int charge(struct channel *c)
{
    size_t more = c->inbox.len - MIN(c->charged, c->inbox.len);

    if (more == 0) {
        return 0;
    }
    int r = budget_charge(c->share, more);
    if (r < 0) {
        channel_discard(c);
        return r;
    }
    c->charged += more;
    return 0;
}

/* Gives a large inbox back when little is left in it. Without memory it stays as it is. */
static void shrink(struct channel *c)
{
    struct buf small = BUF_INIT(c->inbox.max);

    if (c->inbox.cap <= KEPT_MOST || c->inbox.len > READ_CHUNK ||
        (c->inbox.len > 0 && buf_add(&small, c->inbox.data, c->inbox.len) < 0)) {
        return;
    }
    buf_release(&c->inbox);
    c->inbox = small;
    budget_credit(c->share, c->charged - c->inbox.len);
    c->charged = c->inbox.len;
}

static int peek_frame(const struct channel *c, struct frame_head *head, const char **body);

/*
 * Looks at what is there without taking it: should this process die before the frame is dropped,
 * its successor finds it. Works for frames that are there as a whole; others would keep the socket
 * readable, and us busy. 1: one is there.
 */
static int look(struct channel *c)
{
    struct frame_head head;
    const char *body;

    ssize_t n = recv(c->fd, c->inbox.data, READ_CHUNK, MSG_PEEK | MSG_DONTWAIT);
    if (n <= 0) {
        return 0; /* the read that follows tells why */
    }
    c->inbox.len = (size_t)n;
    int r = peek_frame(c, &head, &body);
    c->inbox.len = r == 1 ? sizeof(head) + head.len : 0;
    c->unread = c->inbox.len;
    return r == 1;
}

/* Reads what is there. 0, or -errno; -ENODATA at end of file. */
static int fill_inbox(struct channel *c)
{
    size_t chunk = c->inbox.len == 0 && !c->leave_unread ? FIRST_CHUNK : READ_CHUNK;
    int r = buf_reserve(&c->inbox, chunk);

    if (r < 0) {
        return r;
    }
    if (c->leave_unread && c->inbox.len == 0 && look(c) == 1) {
        return charge(c);
    }
    ssize_t n = fd_recv(c->fd, c->inbox.data + c->inbox.len, chunk, NULL, MSG_DONTWAIT);
    if (n <= 0) {
        return n == 0 ? -ENODATA : n == -EAGAIN ? 0 : (int)n;
    }
    c->inbox.len += (size_t)n;
    return charge(c);
}

/* 1 when a whole frame lies at the front of the inbox. */
static int peek_frame(const struct channel *c, struct frame_head *head, const char **body)
{
    int r = frame_parse_head(c->inbox.data, c->inbox.len, FRAME_FROM_BOX_MAX, head);

    if (r <= 0) {
        return r;
    }
    if (c->inbox.len - sizeof(*head) < head->len) {
        return 0;
    }
    *body = c->inbox.data + sizeof(*head);
    return 1;
}

uint64_t channel_due_ms(const struct channel *c)
{
    return c->begun_ms != 0 ? c->begun_ms + c->frame_ms : UINT64_MAX;
}

bool channel_is_overdue(const struct channel *c)
{
    struct frame_head head;
    const char *body;

    return clock_ms() >= channel_due_ms(c) && peek_frame(c, &head, &body) == 0;
}

/* There is no more to read now, and no whole frame: 0, or -ETIME. */
static int await_rest(struct channel *c)
{
    if (c->inbox.len == 0) {
        c->begun_ms = 0;
        return 0;
    }
    uint64_t now = clock_ms();
    if (c->begun_ms == 0) {
        c->begun_ms = now;
    }
    return now >= channel_due_ms(c) ? -ETIME : 0;
}

int channel_frame(struct channel *c, struct frame_head *head, const char **body)
{
    int filled = 0;

    for (;;) {
        int r = peek_frame(c, head, body);
        if (r != 0) {
            c->begun_ms = 0;
            return r;
        }
        size_t before = c->inbox.len;
        filled = fill_inbox(c);
        if (filled < 0) {
            return filled == -ECONNRESET ? -ENODATA : filled;
        }
        if (c->inbox.len == before) {
            return await_rest(c);
        }
    }
}

void channel_drop(struct channel *c, const struct frame_head *head)
{
    while (c->unread > 0) {
        char waste[4096];
        ssize_t n = recv(c->fd, waste, MIN(c->unread, sizeof(waste)), MSG_DONTWAIT);
        if (n <= 0) {
            /* it was there a moment ago, so the socket is broken, and the next read says so */
            break;
        }
        c->unread -= (size_t)n;
    }
    c->unread = 0;
    buf_consume(&c->inbox, sizeof(*head) + head->len);
    shrink(c);
    c->begun_ms = c->inbox.len > 0 ? clock_ms() : 0;
}

void channel_drop_pending(struct channel *c)
{
    struct frame_head head;
    const char *body;

    if (c->pending && peek_frame(c, &head, &body) == 1) {
        channel_drop(c, &head);
    }
    c->pending = false;
}

ssize_t channel_send_some(struct channel *c, struct buf *frame, const int *fds, size_t nfds,
                          struct err *e)
{
    /* The runner reads a request whole before it runs anything. Ended boxes give EPIPE. */
    ssize_t n = fd_send(c->fd, frame->data, frame->len, fds, nfds, MSG_DONTWAIT);

    if (n == -EAGAIN) {
        return 0;
    }
    if (n < 0) {
        return err_sys(e, (int)-n, "hand over the code");
    }
    buf_consume(frame, (size_t)n);
    return n;
}

int channel_send(struct channel *c, struct buf *frame, const int *fds, size_t nfds, struct err *e)
{
    uint64_t until = clock_ms() + c->patience_ms;

    while (frame->len > 0) {
        ssize_t n = channel_send_some(c, frame, fds, nfds, e);
        if (n < 0) {
            return -1;
        }
        if (n > 0) {
            nfds = 0;
            continue;
        }
        struct pollfd p = {.fd = c->fd, .events = POLLOUT};
        uint64_t now = clock_ms();
        if (now >= until) {
            return err_set(e, ERR_TIMEOUT, "the box does not take its code");
        }
        int r = fiber_poll(&p, 1, (int64_t)(until - now)); /* or a wake: look again */
        if (r < 0 && r != -EINTR) {
            return err_sys(e, -r, "wait for the box");
        }
    }
    return 0;
}
