/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a notebook's box; see box_files.h. */
#include "core/box_files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/fiber.h"
#include "base/str.h"
#include "core/box_files_impl.h"
#include "core/notebook_impl.h"

/* ---- the connection ---- */

/* Hands their end to PID 1. One small frame: the socket takes it whole or not at all. */
static int send_socket(struct channel *control, int theirs, struct err *e)
{
    AUTO_BUF struct buf frame = BUF_INIT(256);
    uint64_t until = clock_ms() + BOX_FILES_PATIENCE_MS;

    if (frame_begin(&frame, FRAME_FILES, NULL) < 0 || frame_end(&frame) < 0) {
        return err_sys(e, ENOMEM, "frame");
    }
    for (;;) {
        ssize_t n = fd_send(control->fd, frame.data, frame.len, &theirs, 1, MSG_DONTWAIT);
        if (n == (ssize_t)frame.len) {
            return 0;
        }
        if (n != -EAGAIN) {
            return err_set(e, ERR_NOT_FOUND, "the session's box has ended");
        }
        struct pollfd p = {.fd = control->fd, .events = POLLOUT};
        uint64_t now = clock_ms();
        if (now >= until || fiber_poll(&p, 1, (int64_t)(until - now)) < 0) {
            return err_set(e, ERR_TIMEOUT, "the session's box does not listen");
        }
    }
}

/*
 * The launcher's word of it may still be on its way; the end of its socket is there before that of
 * the worker's.
 */
static bool has_ended(const struct channel *control)
{
    struct pollfd p = {.fd = control->fd};

    return poll(&p, 1, 0) > 0 && (p.revents & POLLHUP) != 0;
}

static int start_worker(struct box_files *f, struct channel *control, struct err *e)
{
    struct files_head head = {0};
    const char *body;
    int pair[2];

    int r = fd_pair_for_box(pair);
    if (r < 0) {
        return err_sys(e, -r, "socket for file work");
    }
    f->fd = pair[0];
    r = send_socket(control, pair[1], e);
    fd_close(&pair[1]);
    if (r == 0) {
        r = box_files_next(f, true, NULL, &head, &body, e);
    }
    if (r < 0 && f->status == FILES_LOST) {
        return has_ended(control) ? err_set(e, ERR_NOT_FOUND, "the session's box has ended")
                                  : err_set(e, ERR_LIMIT, "the box has no room for a file worker");
    }
    if (r < 0) {
        return -1;
    }
    return head.type == FILES_READY ? 0 : box_files_broke_rules(f, e);
}

struct box_files *box_files_connect(struct channel *control, struct err *e)
{
    struct box_files *f = calloc(1, sizeof(*f));

    if (f == NULL) {
        err_sys(e, ENOMEM, "file work");
        return NULL;
    }
    f->fd = -1;
    f->in = BUF_INIT(BOX_FILES_MESSAGE_MAX);
    f->out = BUF_INIT(BOX_FILES_MESSAGE_MAX);
    f->patience_ms = BOX_FILES_PATIENCE_MS;
    if (start_worker(f, control, e) < 0) {
        box_files_close(f);
        return NULL;
    }
    return f;
}

struct box_files *box_files_open(struct notebook *nb, struct err *e)
{
    return box_files_connect(&nb->guest->control, e);
}

void box_files_close(struct box_files *f)
{
    if (f == NULL) {
        return;
    }
    fd_close(&f->fd); /* PID 1 of the box sees it and kills the worker */
    buf_release(&f->in);
    buf_release(&f->out);
    free(f);
}

void box_files_set_patience(struct box_files *f, int64_t ms)
{
    f->patience_ms = ms;
}

enum files_status box_files_status(const struct box_files *f)
{
    return f->status;
}

bool box_files_is_usable(const struct box_files *f)
{
    return !f->broken;
}

/* ---- requests ---- */

int box_files_begin(struct box_files *f, enum files_type type, const struct files_req *req,
                    const char *path, const char *to, struct err *e)
{
    bool root =
        type == FILES_LIST || type == FILES_STAT || type == FILES_PACK || type == FILES_UNPACK;

    if (f->busy) {
        return err_set(e, ERR_CONFLICT, "another file request is being served");
    }
    if (f->broken) {
        return box_files_fail(f, FILES_LOST, EPIPE, path, e);
    }
    f->status = FILES_OK;
    f->over = false;
    if (!files_msg_path_ok(path, strlen(path), root)) {
        return box_files_fail(f, FILES_INVALID_PATH, EINVAL, path, e);
    }
    if (to != NULL && !files_msg_path_ok(to, strlen(to), false)) {
        return box_files_fail(f, FILES_INVALID_PATH, EINVAL, to, e);
    }
    if (files_msg_put_req(&f->out, type, req, path, to) < 0) {
        return box_files_fail(f, FILES_FAILED, ENOMEM, path, e);
    }
    f->busy = true;
    return box_files_send(f, e);
}

int box_files_end(struct box_files *f, int r)
{
    f->busy = false;
    f->broken = f->broken || !f->over;
    /* A connection is kept for the next request; its memory is not. */
    buf_consume(&f->in, f->used);
    f->used = 0;
    if (f->in.len == 0) {
        buf_release(&f->in);
    }
    buf_release(&f->out);
    return r;
}

int box_files_broke_rules(struct box_files *f, struct err *e)
{
    return box_files_fail(f, FILES_PROTOCOL, EBADMSG, NULL, e);
}

/* Requests whose whole answer is DONE. */
static int simple(struct box_files *f, enum files_type type, const struct files_req *req,
                  const char *path, const char *to, struct err *e)
{
    struct files_head head;
    const char *body;
    char both[200]; /* what a message shows of a name */
    int r = box_files_begin(f, type, req, path, to, e);

    if (r < 0) {
        return f->busy ? box_files_end(f, r) : r;
    }
    if (to != NULL) { /* the kernel does not say which of the two is at fault */
        (void)str_format(both, sizeof(both), "%.97s to %.97s", path, to);
    }
    r = box_files_next(f, true, to != NULL ? both : path, &head, &body, e);
    if (r > 0) {
        r = head.type == FILES_DONE ? 0 : box_files_broke_rules(f, e);
    }
    return box_files_end(f, r);
}

int box_files_move(struct box_files *f, const char *from, const char *to, uint32_t flags,
                   struct err *e)
{
    struct files_req req = {.flags = flags & (FILES_REPLACE | FILES_PARENTS)};

    return simple(f, FILES_MOVE, &req, from, to, e);
}

int box_files_delete(struct box_files *f, const char *path, bool recursive, struct err *e)
{
    struct files_req req = {.flags = recursive ? FILES_RECURSIVE : 0};

    return simple(f, FILES_DELETE, &req, path, NULL, e);
}

int box_files_mkdir(struct box_files *f, const char *path, uint32_t mode, bool parents,
                    struct err *e)
{
    struct files_req req = {.flags = parents ? FILES_PARENTS : 0,
                            .mode = mode != 0 ? mode & 0777 : 0755};

    return simple(f, FILES_MKDIR, &req, path, NULL, e);
}
