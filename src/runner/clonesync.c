/* SPDX-License-Identifier: Apache-2.0 */
/* Synchronises a zygote with its newest child; see clonesync.h. */
#include "runner/clonesync.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LEFT 1u
#define MAPPED 2u
#define TICK_NS 10000000 /* how often a parent looks whether the child is still alive */

static struct {
    uint32_t *words;
    size_t bytes;
    uint32_t *word; /* of the box that is being started */
} b;

int clonesync_open(size_t boxes)
{
    b.bytes = boxes * sizeof(*b.words);
    void *words = mmap(NULL, b.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (words == MAP_FAILED) {
        return -errno;
    }
    b.words = words;
    return 0;
}

void clonesync_begin(size_t slot)
{
    b.word = &b.words[slot];
    __atomic_store_n(b.word, 0, __ATOMIC_SEQ_CST);
}

static void say(uint32_t what)
{
    __atomic_or_fetch(b.word, what, __ATOMIC_SEQ_CST);
    (void)syscall(SYS_futex, b.word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* True if the other side has set it; else waits for one tick, without a tick for ever. */
static int heard(uint32_t what, const struct timespec *tick)
{
    uint32_t now = __atomic_load_n(b.word, __ATOMIC_SEQ_CST);

    if ((now & what) != 0) {
        return 1;
    }
    (void)syscall(SYS_futex, b.word, FUTEX_WAIT, now, tick, NULL, 0);
    return 0;
}

void clonesync_say_left(void)
{
    say(LEFT);
}

void clonesync_await_left(int pidfd)
{
    const struct timespec tick = {.tv_nsec = TICK_NS};
    struct pollfd p = {.fd = pidfd, .events = POLLIN};

    while (!heard(LEFT, &tick) && poll(&p, 1, 0) == 0) {
    }
}

void clonesync_say_mapped(void)
{
    say(MAPPED);
}

void clonesync_await_mapped(void)
{
    while (!heard(MAPPED, NULL)) {
    }
    if (munmap(b.words, b.bytes) < 0) {
        _exit(1);
    }
}
