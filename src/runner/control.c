/* SPDX-License-Identifier: Apache-2.0 */
/* Frames on the control socket; see control.h. */
#include "runner/control.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

/* Longest poll: more than a client needs between two cells in a loop. */
#define SOON_NS 200000u

int control_send(int fd, const struct buf *frame)
{
    size_t done = 0;

    while (done < frame->len) {
        ssize_t n = fd_send(fd, frame->data + done, frame->len - done, NULL, 0, 0);
        if (n < 0) {
            return (int)n;
        }
        done += (size_t)n;
    }
    return 0;
}

static int recv_frame(int fd, struct frame_head *head, struct buf *body, struct fd_set_msg *fds)
{
    char raw[sizeof(*head)];

    body->len = 0;
    /* Wait by peeking: here, and only here, a signal may interrupt without losing bytes. */
    struct iovec iov = {.iov_base = raw, .iov_len = sizeof(raw)};
    struct msghdr peek = {.msg_iov = &iov, .msg_iovlen = 1};
    if (recvmsg(fd, &peek, MSG_PEEK) < 0) {
        return -errno;
    }
    ssize_t n = fd_recv(fd, raw, sizeof(raw), fds, MSG_WAITALL);
    if (n <= 0) {
        return (int)n;
    }
    if ((size_t)n < sizeof(raw)) {
        ssize_t more = fd_read_all(fd, raw + n, sizeof(raw) - (size_t)n);
        if (more < 0 || (size_t)(n + more) < sizeof(raw)) {
            return -EBADMSG;
        }
    }
    int r = frame_parse_head(raw, sizeof(raw), FRAME_TO_BOX_MAX, head);
    if (r <= 0) {
        return r < 0 ? r : -EBADMSG;
    }
    r = buf_reserve(body, head->len);
    if (r < 0) {
        return r;
    }
    n = fd_read_all(fd, body->data, head->len);
    if (n < 0 || (size_t)n != head->len) {
        return n < 0 ? (int)n : -EBADMSG;
    }
    body->len = head->len;
    return 1;
}

static int send_pong(int fd, const struct frame_head *ping)
{
    struct frame_head pong = {.type = FRAME_PONG};

    memcpy(pong.token, ping->token, sizeof(pong.token));
    ssize_t n = fd_send(fd, &pong, sizeof(pong), NULL, 0, 0);
    return n < 0 ? (int)n : 0;
}

int control_recv(int fd, struct frame_head *head, struct buf *body, struct fd_set_msg *fds)
{
    int r;

    while ((r = recv_frame(fd, head, body, fds)) > 0 && head->type == FRAME_PING &&
           head->len == 0) {
        fd_set_release(fds);
        r = send_pong(fd, head);
        if (r < 0) {
            return r;
        }
    }
    return r;
}

static bool has_processors(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 1;
}

/* Polls until there is something to read, at most for SOON_NS. Yields the processor to others. */
static void look(int fd, uint64_t since)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    while (poll(&p, 1, 0) == 0 && clock_ns() - since < SOON_NS) {
        sched_yield();
    }
}

/*
 * Waking a processor takes tens of microseconds on a virtual machine, and its caches are cold then:
 * a short cell takes several times as long after a sleep. The last pause predicts the next one: a
 * session with single cells never polls in vain, and one whose loop ends does so once.
 */
static bool soon; /* the next cell is expected soon */

bool control_look(int fd)
{
    if (!soon) {
        return false;
    }
    look(fd, clock_ns());
    return true;
}

int control_recv_cell(int fd, struct frame_head *head, struct buf *body, struct fd_set_msg *fds)
{
    uint64_t since = clock_ns();

    int r = control_recv(fd, head, body, fds);
    soon = r > 0 && clock_ns() - since < SOON_NS && has_processors();
    return r;
}

int control_send_ready(int fd)
{
    AUTO_BUF struct buf b = BUF_INIT(256);

    if (frame_begin(&b, FRAME_READY, NULL) < 0 ||
        frame_add_u32(&b, KEY_PID, (uint32_t)getpid()) < 0 || frame_end(&b) < 0) {
        return -ENOMEM;
    }
    return control_send(fd, &b);
}

void control_send_failed(int fd, const char *message)
{
    /* Built by hand on the stack: this runs where nothing may be allocated. */
    struct {
        struct frame_head head;
        uint32_t key, len;
        char text[400];
    } f = {.head = {.type = FRAME_FAILED}, .key = KEY_ERROR_MESSAGE};
    size_t n = MIN(strlen(message), sizeof(f.text));

    memcpy(f.text, message, n);
    f.len = (uint32_t)n;
    f.head.len = (uint32_t)(8 + n);
    (void)fd_send(fd, &f, sizeof(f.head) + 8 + n, NULL, 0, MSG_DONTWAIT);
}

void control_send_refused(int fd, int error)
{
    AUTO_BUF struct buf b = BUF_INIT(256);

    if (frame_begin(&b, FRAME_EXITED, NULL) == 0 &&
        frame_add_u32(&b, KEY_EXIT, (uint32_t)error) == 0 && frame_end(&b) == 0) {
        (void)fd_send(fd, b.data, b.len, NULL, 0, MSG_DONTWAIT);
    }
}
