/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts of a session; see context.h. What they say is hostile, PID 1's word a little less so. */
#include "core/context.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

#define START_PATIENCE_MS 15000
#define EXIT_PATIENCE_MS 2000 /* from a lost context to PID 1's word about it */

int context_send(struct channel *to, enum frame_type type, const int *fd, uint32_t pid,
                 uint32_t sig, struct err *e)
{
    AUTO_BUF struct buf b = BUF_INIT(256);

    if (frame_begin(&b, type, NULL) < 0 || frame_add_u32(&b, KEY_PID, pid) < 0 ||
        frame_add_u32(&b, KEY_SIGNAL, sig) < 0 || frame_end(&b) < 0) {
        return err_sys(e, ENOMEM, "frame");
    }
    return channel_send(to, &b, fd, fd != NULL ? 1 : 0, e);
}

/* Waits for the READY of a new context. */
static int wait_ready(struct husk_engine *engine, struct guest *box, struct context *c,
                      struct err *e)
{
    uint64_t until = clock_ms() + START_PATIENCE_MS;
    struct frame_head head;
    struct frame_field f;
    const char *body;
    int r;

    while ((r = channel_frame(&c->channel, &head, &body)) == 0) {
        struct pollfd p[2] = {{.fd = c->channel.fd, .events = POLLIN},
                              {.fd = engine->epoll, .events = POLLIN}};
        uint64_t now = clock_ms();
        if (now >= until || poll(p, 2, (int)(until - now)) < 0) {
            return err_set(e, ERR_TIMEOUT, "a context did not start in time");
        }
        if (p[1].revents != 0 && engine_wait(engine, 0, e) < 0) {
            return -1;
        }
        if (box->exited) {
            return err_set(e, ERR_NOT_FOUND, "the session's box has ended");
        }
    }
    if (r < 0 || head.type != FRAME_READY) {
        return err_set(e, ERR_PROTOCOL, "a context did not start");
    }
    for (size_t at = 0; frame_next(body, head.len, &at, &f) > 0;) {
        if (f.key == KEY_PID) {
            (void)frame_field_u32(&f, &c->pid);
        }
    }
    channel_drop(&c->channel, &head);
    return 0;
}

int context_start(struct husk_engine *engine, struct guest *box, struct context *c,
                  struct channel *from, enum frame_type how, struct err *e)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
        return err_sys(e, errno, "control socket");
    }
    AUTO_CLOSE int theirs = pair[1];
    *c = (struct context){.used = true};
    channel_init(&c->channel, pair[0]);
    if (context_send(from, how, &theirs, 0, 0, e) < 0) {
        channel_release(&c->channel);
        c->used = false;
        return -1;
    }
    fd_close(&theirs);
    if (wait_ready(engine, box, c, e) < 0) {
        channel_release(&c->channel);
        c->used = false;
        return -1;
    }
    return 0;
}

void context_end(struct guest *box, struct context *c)
{
    struct err ignored;

    if (c->used) {
        (void)context_send(&box->control, FRAME_SIGNAL, NULL, c->pid, SIGKILL, &ignored);
        channel_release(&c->channel);
        c->used = false;
    }
}

bool context_fate(struct guest *box, uint32_t pid, int *ret_status)
{
    uint64_t until = clock_ms() + EXIT_PATIENCE_MS;
    struct channel *control = &box->control;
    struct frame_head head;
    const char *body;

    for (;;) {
        int r = channel_frame(control, &head, &body);
        if (r < 0) {
            return false;
        }
        if (r == 0) {
            struct pollfd p = {.fd = control->fd, .events = POLLIN};
            uint64_t now = clock_ms();
            if (now >= until || poll(&p, 1, (int)(until - now)) < 0) {
                return false;
            }
            continue;
        }
        struct frame_field f;
        uint32_t who = 0;
        uint32_t how = 0;
        for (size_t at = 0; frame_next(body, head.len, &at, &f) > 0;) {
            if (f.key == KEY_PID) {
                (void)frame_field_u32(&f, &who);
            } else if (f.key == KEY_EXIT) {
                (void)frame_field_u32(&f, &how);
            }
        }
        bool found = head.type == FRAME_EXITED && who == pid;
        channel_drop(control, &head);
        if (found) {
            *ret_status = (int)how;
            return true;
        }
    }
}
