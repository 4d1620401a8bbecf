/* SPDX-License-Identifier: Apache-2.0 */
/* See loop.h. */
#include "daemon/loop.h"

#include "base/fiber.h"

static struct {
    uv_poll_t poll;       /* wakes the loop when a fiber's descriptor is ready */
    uv_prepare_t prepare; /* before it sleeps: sets until when */
    uv_check_t check;     /* after it slept: fibers run */
    uv_timer_t timer;
    uv_idle_t idle; /* keeps it from sleeping while fibers are ready */
} handles;

/* These three only wake the loop: on_check() does the work. */

static void on_poll(uv_poll_t *h, int status, int events)
{
}

static void on_timer(uv_timer_t *h)
{
}

static void on_idle(uv_idle_t *h)
{
}

static void on_prepare(uv_prepare_t *h)
{
    int ms = fiber_timeout();

    if (ms == 0) {
        uv_idle_start(&handles.idle, on_idle);
        return;
    }
    uv_idle_stop(&handles.idle);
    if (ms > 0) {
        uv_update_time(h->loop);
        uv_timer_start(&handles.timer, on_timer, (uint64_t)ms, 0);
    } else {
        uv_timer_stop(&handles.timer);
    }
}

static void on_check(uv_check_t *h)
{
    fiber_run();
}

int loop_serve_fibers(uv_loop_t *loop, struct err *e)
{
    int fd = fiber_fd();

    if (fd < 0) {
        return err_sys(e, -fd, "epoll");
    }
    if (uv_poll_init(loop, &handles.poll, fd) < 0 || uv_prepare_init(loop, &handles.prepare) < 0 ||
        uv_check_init(loop, &handles.check) < 0 || uv_timer_init(loop, &handles.timer) < 0 ||
        uv_idle_init(loop, &handles.idle) < 0) {
        return err_set(e, ERR_SYSTEM, "the event loop could not be set up");
    }
    uv_poll_start(&handles.poll, UV_READABLE, on_poll);
    uv_prepare_start(&handles.prepare, on_prepare);
    uv_check_start(&handles.check, on_check);
    return 0;
}
