/* SPDX-License-Identifier: Apache-2.0 */
/* Control sockets; see channel.h. */
#include "core/channel.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/fd.h"

#define READ_CHUNK 65536

void channel_init(struct channel *c, int fd)
{
    c->fd = fd;
    c->inbox = BUF_INIT(FRAME_FROM_BOX_MAX + sizeof(struct frame_head) + READ_CHUNK);
}

void channel_release(struct channel *c)
{
    fd_close(&c->fd);
    buf_release(&c->inbox);
}

/* Reads what is there. 0, or -errno; -ENODATA at end of file. */
static int fill_inbox(struct channel *c)
{
    int r = buf_reserve(&c->inbox, READ_CHUNK);

    if (r < 0) {
        return r;
    }
    ssize_t n = fd_recv(c->fd, c->inbox.data + c->inbox.len, READ_CHUNK, NULL, MSG_DONTWAIT);
    if (n <= 0) {
        return n == 0 ? -ENODATA : n == -EAGAIN ? 0 : (int)n;
    }
    c->inbox.len += (size_t)n;
    return 0;
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

int channel_frame(struct channel *c, struct frame_head *head, const char **body)
{
    int filled = 0;

    for (;;) {
        int r = peek_frame(c, head, body);
        if (r != 0) {
            return r;
        }
        size_t before = c->inbox.len;
        filled = fill_inbox(c);
        if (filled < 0) {
            return filled == -ECONNRESET ? -ENODATA : filled;
        }
        if (c->inbox.len == before) {
            return 0;
        }
    }
}

void channel_drop(struct channel *c, const struct frame_head *head)
{
    buf_consume(&c->inbox, sizeof(*head) + head->len);
}

int channel_send(struct channel *c, const struct buf *frame, const int *fds, size_t nfds,
                 struct err *e)
{
    size_t done = 0;

    while (done < frame->len) {
        /* Blocking: the runner reads a request whole before it runs anything. Ended boxes give EPIPE. */
        ssize_t n =
            fd_send(c->fd, frame->data + done, frame->len - done, fds, done == 0 ? nfds : 0, 0);
        if (n < 0) {
            return err_sys(e, (int)-n, "hand over the code");
        }
        done += (size_t)n;
    }
    return 0;
}
