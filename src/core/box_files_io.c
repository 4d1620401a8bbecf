/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages to and from a file worker; see box_files_impl.h. Everything read here comes out of a
 * box.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/fiber.h"
#include "base/str.h"
#include "core/box_files_impl.h"

#define TICKS_PATIENCE 20 /* how much longer a worker may take that says it is still at it */
#define TICKS_MAX 4096    /* in one wait; an honest worker sends one a second */
#define SHOWN_MAX 200     /* bytes of a name in a message */

static enum err_code code_of(enum files_status status)
{
    switch (status) {
    case FILES_NOT_FOUND:
        return ERR_NOT_FOUND;
    case FILES_EXISTS:
        return ERR_EXISTS;
    case FILES_NOT_A_DIRECTORY:
    case FILES_IS_A_DIRECTORY:
    case FILES_NOT_EMPTY:
    case FILES_CHANGED:
        return ERR_CONFLICT;
    case FILES_NO_SPACE:
        return ERR_STORAGE;
    case FILES_TOO_LARGE:
        return ERR_LIMIT;
    case FILES_DENIED:
    case FILES_INVALID_PATH:
    case FILES_INVALID_ARCHIVE:
        return ERR_INVALID;
    case FILES_TIMEOUT:
        return ERR_TIMEOUT;
    case FILES_PROTOCOL:
        return ERR_PROTOCOL;
    default:
        return ERR_SYSTEM;
    }
}

static const char *text_of(enum files_status status, int sys_errno)
{
    switch (status) {
    case FILES_NO_SPACE:
        return "the box's disk is full";
    case FILES_CHANGED:
        return "the file changed while it was read";
    case FILES_INVALID_PATH:
        return "not a path that can be used";
    case FILES_INVALID_ARCHIVE:
        return "the archive cannot be unpacked";
    case FILES_ABORTED:
        return "given up";
    case FILES_LOST:
        return "the box's file worker is gone";
    case FILES_TIMEOUT:
        return "the box's file worker does not answer";
    case FILES_PROTOCOL:
        return "the box's file worker broke the rules";
    default:
        return strerrordesc_np(sys_errno) != NULL ? strerrordesc_np(sys_errno) : "it failed";
    }
}

int box_files_fail(struct box_files *f, enum files_status status, int sys_errno, const char *path,
                   struct err *e)
{
    char shown[SHOWN_MAX + 1] = "";

    f->status = status;
    f->broken = f->broken || status >= FILES_STATUSES;
    if (path != NULL && path[0] != '\0') {
        str_printable(shown, sizeof(shown), path, strlen(path));
    }
    (void)err_set(e, code_of(status), "%s%s%s", shown, shown[0] != '\0' ? ": " : "",
                  text_of(status, sys_errno));
    e->sys_errno = sys_errno;
    return -1;
}

/* Waits until something can be sent or received. */
static int wait_for(struct box_files *f, short events, uint64_t until_ms, struct err *e)
{
    for (;;) {
        struct pollfd p = {.fd = f->fd, .events = events};
        uint64_t now = clock_ms();
        if (now >= until_ms) {
            return box_files_fail(f, FILES_TIMEOUT, ETIMEDOUT, NULL, e);
        }
        int r = fiber_poll(&p, 1, (int64_t)(until_ms - now));
        if (r > 0) {
            return 0;
        }
        if (r < 0 && r != -EINTR) {
            return box_files_fail(f, FILES_LOST, -r, NULL, e);
        }
    }
}

int box_files_send(struct box_files *f, struct err *e)
{
    for (size_t done = 0; done < f->out.len;) {
        ssize_t n = fd_send(f->fd, f->out.data + done, f->out.len - done, NULL, 0, MSG_DONTWAIT);
        if (n == -EAGAIN) {
            if (wait_for(f, POLLOUT, clock_ms() + (uint64_t)f->patience_ms, e) < 0) {
                return -1;
            }
            continue;
        }
        if (n < 0) {
            return box_files_fail(f, FILES_LOST, (int)-n, NULL, e);
        }
        done += (size_t)n;
    }
    return 0;
}

/* 1 when a whole message lies at the front of f->in; 0; -EBADMSG. */
static int peek(struct box_files *f, struct files_head *head, const char **body)
{
    if (f->in.len < sizeof(*head)) {
        return 0;
    }
    int r = files_msg_get_head(f->in.data, true, head);
    if (r < 0 || f->in.len - sizeof(*head) < head->len) {
        return r;
    }
    *body = f->in.data + sizeof(*head);
    f->used = sizeof(*head) + head->len;
    return 1;
}

/* Reads what is there: bytes, or -errno; 0 at the end. */
static ssize_t fill(struct box_files *f)
{
    size_t room = f->in.max - f->in.len;
    int r = buf_reserve(&f->in, room);

    if (r < 0) {
        return r;
    }
    ssize_t n = fd_recv(f->fd, f->in.data + f->in.len, room, NULL, MSG_DONTWAIT);
    f->in.len += n > 0 ? (size_t)n : 0;
    return n;
}

/* Any message: 1; 0: none now; -1. */
static int next_message(struct box_files *f, struct files_head *head, const char **body,
                        struct err *e)
{
    buf_consume(&f->in, f->used);
    f->used = 0;
    for (;;) {
        int r = peek(f, head, body);
        if (r != 0) {
            return r > 0 ? 1 : box_files_fail(f, FILES_PROTOCOL, EBADMSG, NULL, e);
        }
        ssize_t n = fill(f);
        if (n == -EAGAIN) {
            return 0;
        }
        if (n == 0 || n == -ECONNRESET) {
            return box_files_fail(f, FILES_LOST, EPIPE, NULL, e);
        }
        if (n < 0) {
            return box_files_fail(f, FILES_PROTOCOL, (int)-n, NULL, e);
        }
    }
}

static int take_done(struct box_files *f, const char *path, const struct files_head *head,
                     const char *body, struct err *e)
{
    char text[FILES_PATH_MAX + 1];
    const char *said;

    if (files_msg_get_done(body, head->len, &f->done, &said) < 0) {
        return box_files_fail(f, FILES_PROTOCOL, EBADMSG, NULL, e);
    }
    f->over = true;
    if (f->done.status == FILES_OK) {
        return 1;
    }
    memcpy(text, said, f->done.text_len);
    text[f->done.text_len] = '\0';
    return box_files_fail(f, (enum files_status)f->done.status, f->done.sys_errno,
                          text[0] != '\0' ? text : path, e);
}

int box_files_next(struct box_files *f, bool wait, const char *path, struct files_head *head,
                   const char **body, struct err *e)
{
    uint64_t patience = (uint64_t)f->patience_ms;
    uint64_t last = clock_ms() + TICKS_PATIENCE * patience;
    int ticks = 0;

    for (;;) {
        int r = next_message(f, head, body, e);
        if (r < 0) {
            return -1;
        }
        if (r > 0 && head->type != FILES_TICK) {
            return head->type == FILES_DONE ? take_done(f, path, head, *body, e) : 1;
        }
        if (r > 0) { /* a tick: another full wait, but not for ever */
            if (++ticks > TICKS_MAX) {
                return box_files_fail(f, FILES_PROTOCOL, EBADMSG, NULL, e);
            }
            continue;
        }
        if (!wait) {
            return 0;
        }
        if (wait_for(f, POLLIN, MIN(last, clock_ms() + patience), e) < 0) {
            return -1;
        }
    }
}
