/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fibers: functions that wait without blocking their thread.
 *
 * Code that talks to boxes, to the launcher or to the disk is written as straight-line code that
 * waits with fiber_poll() or fiber_sleep(). Outside a fiber these simply block, as command-line
 * programs want; in a fiber they let other fibers run, as a server needs (docs/adr/0014-fibers.md).
 * There is one scheduler per thread; threads share nothing here.
 *
 * Code between two waits is atomic with respect to other fibers. Across a wait it is not: anything
 * that another fiber may change or free must be checked again.
 */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fiber;

/* Runs fn(user) in a new fiber, at once, up to its first wait. 0 or -errno. */
int fiber_start(void (*fn)(void *user), void *user);

/* The fiber that is running, or NULL. */
struct fiber *fiber_self(void);

/*
 * Like poll(): waits until a descriptor is ready, the time is up (negative: no limit) or
 * fiber_wake() is called. Returns how many are ready, 0 on timeout or wake, or -errno. At most
 * FIBER_POLL_MAX descriptors; negative ones are skipped.
 */
#define FIBER_POLL_MAX 16
int fiber_poll(struct pollfd *fds, size_t n, int64_t timeout_ms);

/*
 * The same for one descriptor that stays in the thread's set between two waits, until
 * fiber_drop_kept(): for an epoll set with many members, since the kernel looks at all of them each
 * time it is added. One descriptor per thread.
 */
int fiber_poll_kept(struct pollfd *fd, int64_t timeout_ms);
void fiber_drop_kept(void); /* before it is closed */

/*
 * The same for an event expected within microseconds: polls actively for a moment first. Other
 * fibers run meanwhile.
 */
int fiber_poll_soon(struct pollfd *fds, size_t n, int64_t timeout_ms);

/*
 * Lets other fibers run, then continues. True: fiber_wake() was called, and the next wait will end
 * at once.
 */
bool fiber_yield(void);

void fiber_sleep(int64_t ms);

/* Ends a fiber's wait, or the next one if it is not waiting now. NULL is fine. */
void fiber_wake(struct fiber *f);

/* A first-in, first-out queue of waiting fibers. */
struct fiber_queue {
    struct fiber_waiter *first;
    struct fiber_waiter *last;
};

/* Waits to be woken by fiber_queue_wake(). 0; -ETIMEDOUT. Only in a fiber. */
int fiber_queue_wait(struct fiber_queue *q, int64_t timeout_ms);
bool fiber_queue_wake(struct fiber_queue *q); /* the first one; false if none waits */
void fiber_queue_wake_all(struct fiber_queue *q);

/* ---- for the loop that drives a thread's fibers ---- */

/* Readable when a waiting fiber's descriptor is ready. Created on first use; -errno. */
int fiber_fd(void);

/* Milliseconds until a fiber's time is up: 0 if one can run now, -1 for never. */
int fiber_timeout(void);

/* Runs every fiber that can continue. Never waits. */
void fiber_run(void);

/* Runs fibers until none is left (tests and small programs). */
void fiber_run_all(void);

size_t fiber_count(void);

/* Frees the stacks kept for reuse. Only when no fiber is left. */
void fiber_release(void);
