/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler of fibers; see fiber.h.
 *
 * A waiting fiber puts its descriptors into one epoll set and returns the processor to its resumer.
 * Each fiber has its own stack (fiber_stack.h); stacks of finished fibers are kept for reuse.
 */
#include "base/fiber.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/fiber_stack.h"

#define STACKS_KEPT 256
#define EVENTS_MAX 128

struct fiber {
    struct fiber *next; /* on the ready list or the free list */
    struct fiber *prev_waiting;
    struct fiber *next_waiting;
    struct fiber_stack stack;
    struct pollfd *fds; /* of the current wait */
    size_t n;
    uint64_t until_ms; /* 0: no limit */
    bool waiting;
    bool woken; /* fiber_wake() was called */
    bool ready; /* on the ready list */
};

static _Thread_local struct {
    int epoll; /* 0: not made yet */
    int kept;  /* of fiber_poll_kept(); 0: none */
    struct fiber *running;
    struct fiber *waiting;
    struct fiber *ready_first;
    struct fiber *ready_last;
    struct fiber *free;
    size_t n_free;
    size_t count;
} sched;

struct fiber *fiber_self(void)
{
    return sched.running;
}

size_t fiber_count(void)
{
    return sched.count;
}

int fiber_fd(void)
{
    if (sched.epoll == 0) {
        int fd = epoll_create1(EPOLL_CLOEXEC);
        if (fd < 0) {
            return -errno;
        }
        sched.epoll = fd;
    }
    return sched.epoll;
}

static void destroy(struct fiber *f)
{
    fiber_stack_release(&f->stack);
    free(f);
}

static void give_back(struct fiber *f)
{
    sched.count--;
    if (sched.n_free < STACKS_KEPT) {
        f->next = sched.free;
        sched.free = f;
        sched.n_free++;
        return;
    }
    destroy(f);
}

static void resume(struct fiber *f)
{
    struct fiber *outer = sched.running; /* a fiber may start another one */

    sched.running = f;
    fiber_stack_enter(&f->stack);
    sched.running = outer;
    if (f->stack.over) {
        give_back(f);
    }
}

static struct fiber *take_fiber(void)
{
    struct fiber *f = sched.free;

    if (f != NULL) {
        char *memory = f->stack.memory;
        sched.free = f->next;
        sched.n_free--;
        *f = (struct fiber){.stack.memory = memory};
        return f;
    }
    f = calloc(1, sizeof(*f));
    if (f == NULL || fiber_stack_init(&f->stack) < 0) {
        free(f);
        return NULL;
    }
    return f;
}

int fiber_start(void (*fn)(void *user), void *user)
{
    struct fiber *f = take_fiber();

    if (f == NULL) {
        return -ENOMEM;
    }
    fiber_stack_prepare(&f->stack, fn, user);
    sched.count++;
    resume(f);
    return 0;
}

static void make_ready(struct fiber *f)
{
    if (f->ready) {
        return;
    }
    f->ready = true;
    f->next = NULL;
    if (sched.ready_last != NULL) {
        sched.ready_last->next = f;
    } else {
        sched.ready_first = f;
    }
    sched.ready_last = f;
}

void fiber_wake(struct fiber *f)
{
    if (f == NULL) {
        return;
    }
    f->woken = true;
    if (f->waiting) {
        make_ready(f);
    }
}

static void unwatch(struct fiber *f, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct epoll_event none = {.events = 0};
        int fd = f->fds[i].fd;
        if (fd >= 0) {
            (void)epoll_ctl(sched.epoll, fd == sched.kept ? EPOLL_CTL_MOD : EPOLL_CTL_DEL, fd,
                            &none);
        }
    }
}

static int watch(struct fiber *f)
{
    int epoll = fiber_fd();

    for (size_t i = 0; i < f->n; i++) {
        struct epoll_event ev = {.events = (uint32_t)f->fds[i].events, .data.ptr = f};
        int fd = f->fds[i].fd;
        if (fd >= 0 &&
            epoll_ctl(epoll, fd == sched.kept ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &ev) < 0) {
            int r = -errno;
            unwatch(f, i);
            return r;
        }
    }
    return 0;
}

static void link_waiting(struct fiber *f)
{
    f->prev_waiting = NULL;
    f->next_waiting = sched.waiting;
    if (sched.waiting != NULL) {
        sched.waiting->prev_waiting = f;
    }
    sched.waiting = f;
    f->waiting = true;
}

static void unlink_waiting(struct fiber *f)
{
    if (f->prev_waiting != NULL) {
        f->prev_waiting->next_waiting = f->next_waiting;
    } else {
        sched.waiting = f->next_waiting;
    }
    if (f->next_waiting != NULL) {
        f->next_waiting->prev_waiting = f->prev_waiting;
    }
    f->waiting = false;
}

static int poll_now(struct pollfd *fds, size_t n, int timeout)
{
    int r = poll(fds, n, timeout);

    return r < 0 ? (errno == EINTR ? 0 : -errno) : r;
}

int fiber_poll(struct pollfd *fds, size_t n, int64_t timeout_ms)
{
    struct fiber *f = sched.running;

    if (n > FIBER_POLL_MAX) {
        return -EINVAL;
    }
    if (f == NULL) {
        return poll_now(fds, n, timeout_ms < 0 ? -1 : (int)MIN(timeout_ms, (int64_t)3600000));
    }
    int r = poll_now(fds, n, 0);
    if (r != 0 || timeout_ms == 0 || f->woken) {
        f->woken = false;
        return r;
    }
    f->fds = fds;
    f->n = n;
    f->until_ms = timeout_ms < 0 ? 0 : clock_ms() + (uint64_t)timeout_ms;
    r = watch(f);
    if (r < 0) {
        return r;
    }
    link_waiting(f);
    fiber_stack_leave(&f->stack);
    unlink_waiting(f);
    unwatch(f, f->n);
    f->woken = false;
    return poll_now(fds, n, 0);
}

int fiber_poll_kept(struct pollfd *fd, int64_t timeout_ms)
{
    if (sched.running != NULL && sched.kept != fd->fd) {
        struct epoll_event none = {.events = 0};
        int epoll = fiber_fd();

        fiber_drop_kept();
        if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd->fd, &none) < 0) {
            return epoll < 0 ? epoll : -errno;
        }
        sched.kept = fd->fd;
    }
    return fiber_poll(fd, 1, timeout_ms);
}

void fiber_drop_kept(void)
{
    if (sched.kept != 0) {
        (void)epoll_ctl(sched.epoll, EPOLL_CTL_DEL, sched.kept, NULL);
        sched.kept = 0;
    }
}

bool fiber_yield(void)
{
    make_ready(sched.running);
    fiber_stack_leave(&sched.running->stack);
    return sched.running->woken;
}

void fiber_sleep(int64_t ms)
{
    uint64_t until = clock_ms() + (uint64_t)ms;

    for (uint64_t now = clock_ms(); now < until; now = clock_ms()) {
        (void)fiber_poll(NULL, 0, (int64_t)(until - now));
    }
}

int fiber_timeout(void)
{
    uint64_t first = 0;

    if (sched.ready_first != NULL) {
        return 0;
    }
    for (const struct fiber *f = sched.waiting; f != NULL; f = f->next_waiting) {
        if (f->until_ms != 0 && (first == 0 || f->until_ms < first)) {
            first = f->until_ms;
        }
    }
    if (first == 0) {
        return -1;
    }
    uint64_t now = clock_ms();
    return first <= now ? 0 : (int)MIN(first - now, (uint64_t)3600000);
}

static void gather_ready(void)
{
    struct epoll_event events[EVENTS_MAX];
    uint64_t now = clock_ms();

    int n = sched.waiting != NULL ? epoll_wait(fiber_fd(), events, EVENTS_MAX, 0) : 0;
    for (int i = 0; i < n; i++) {
        if (events[i].data.ptr != NULL) { /* else no fiber waits for the one that is kept */
            make_ready(events[i].data.ptr);
        }
    }
    for (struct fiber *f = sched.waiting; f != NULL; f = f->next_waiting) {
        if (f->until_ms != 0 && f->until_ms <= now) {
            make_ready(f);
        }
    }
}

/* Runs only fibers that are ready now: one that keeps waking itself must not starve others. */
static void run_ready(void)
{
    struct fiber *last = sched.ready_last;

    while (last != NULL && sched.ready_first != NULL) {
        struct fiber *f = sched.ready_first;
        bool is_last = f == last;
        sched.ready_first = f->next;
        if (sched.ready_first == NULL) {
            sched.ready_last = NULL;
        }
        f->ready = false;
        resume(f);
        if (is_last) {
            return;
        }
    }
}

void fiber_run(void)
{
    gather_ready();
    run_ready();
    /* Again, for fibers that the first round has woken: they need not wait for the loop. */
    run_ready();
}

void fiber_run_all(void)
{
    while (sched.count > 0) {
        struct pollfd p = {.fd = fiber_fd(), .events = POLLIN};
        (void)poll(&p, 1, fiber_timeout());
        fiber_run();
    }
}

void fiber_release(void)
{
    while (sched.free != NULL) {
        struct fiber *f = sched.free;
        sched.free = f->next;
        destroy(f);
    }
    sched.n_free = 0;
    fiber_drop_kept();
    if (sched.epoll != 0) {
        close(sched.epoll);
        sched.epoll = 0;
    }
}
