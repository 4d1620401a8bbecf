/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fibers: functions that wait without holding up their thread.
 *
 * Code that talks to boxes, to the launcher or to the disk is written as one straight line that
 * waits with fiber_poll() or fiber_sleep(). Called outside a fiber these simply block, which is
 * what command-line programs want; called in a fiber they let other fibers run, which is what a
 * server needs (docs/adr/0014-fibers.md). One scheduler per thread; nothing here is shared between
 * threads.
 *
 * Everything between two waits is atomic as far as other fibers are concerned. Across a wait it is
 * not: whatever another fiber may change or free has to be looked at again.
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
 * Like poll(): waits until a descriptor is ready, time is up (negative: never) or somebody calls
 * fiber_wake(). Returns how many are ready, 0 when time is up or after a wake, or -errno. At most
 * FIBER_POLL_MAX descriptors; those that are negative are skipped.
 */
#define FIBER_POLL_MAX 16
int fiber_poll(struct pollfd *fds, size_t n, int64_t timeout_ms);

/*
 * The same for what is expected within microseconds: stays awake for a moment first. Others run
 * meanwhile.
 */
int fiber_poll_soon(struct pollfd *fds, size_t n, int64_t timeout_ms);

/*
 * Lets the others run, then goes on. True: somebody has called fiber_wake(), and the next wait will
 * end at once.
 */
bool fiber_yield(void);

void fiber_sleep(int64_t ms);

/* Ends a fiber's wait, or the next one if it is not waiting now. NULL is fine. */
void fiber_wake(struct fiber *f);

/* Fibers in the order in which they came, each woken by the one before it. */
struct fiber_queue {
    struct fiber_waiter *first;
    struct fiber_waiter *last;
};

/* Waits to be woken by fiber_queue_wake(). 0; -ETIMEDOUT. Only in a fiber. */
int fiber_queue_wait(struct fiber_queue *q, int64_t timeout_ms);
bool fiber_queue_wake(struct fiber_queue *q); /* the first one; false if nobody waits */
void fiber_queue_wake_all(struct fiber_queue *q);

/* ---- for the loop that drives a thread's fibers ---- */

/* Readable when a waiting fiber's descriptor is ready. Made on first use; -errno. */
int fiber_fd(void);

/* Milliseconds until fiber_run() has something to do without that: 0 for now, -1 for never. */
int fiber_timeout(void);

/* Lets every fiber go on that can. Never waits. */
void fiber_run(void);

/* Runs fibers until none is left (tests and small programs). */
void fiber_run_all(void);

size_t fiber_count(void);

/* Gives back what is kept for the next fibers. Only when none is left. */
void fiber_release(void);
