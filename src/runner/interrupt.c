/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interrupts of a session's cells; see interrupt.h.
 *
 * A word holds the state of a context and a part of the token of its run:
 *
 *   OVER  --begin-->  OPEN  --PID 1-->  SENDING  --PID 1-->  HIT     (open, and SIGINT was sent)
 *   OVER  --PID 1-->  AWAITED, which begin() of the same run finds
 *   OPEN, HIT  --end-->  OVER;  end() waits while it is SENDING
 *
 * So a signal that is sent is delivered before its run ends. PID 1 never waits.
 */
#include "runner/interrupt.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SLOTS 128 /* contexts, and some that have ended and are not reaped yet */
#define TRIES 8   /* a context changes its word twice; one that does so more often is hostile */

enum state { OVER, OPEN, SENDING, HIT, AWAITED, STATE_MASK = 7 };

struct slot {
    _Atomic pid_t pid; /* 0: free */
    _Atomic uint64_t word;
};

static struct slot *slots; /* shared by PID 1 and all contexts */
static struct slot *own;   /* in a context; NULL: it cannot be interrupted precisely */
static uint64_t own_run;

static uint64_t run_of(const uint8_t *token)
{
    uint64_t run;

    memcpy(&run, token, sizeof(run));
    return run & ~(uint64_t)STATE_MASK;
}

static uint64_t run_in(uint64_t word)
{
    return word & ~(uint64_t)STATE_MASK;
}

static enum state state_in(uint64_t word)
{
    return (enum state)(word & STATE_MASK);
}

int interrupt_open(void)
{
    void *page = mmap(NULL, SLOTS * sizeof(*slots), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED) {
        return -errno;
    }
    slots = page;
    return 0;
}

static struct slot *find(pid_t pid)
{
    for (size_t i = 0; i < SLOTS; i++) {
        if (atomic_load(&slots[i].pid) == pid) {
            return &slots[i];
        }
    }
    return NULL;
}

/* A context leads a group: the signal is also for what it started, as Ctrl-C is. */
static void send_signal(pid_t context)
{
    if (kill(-context, SIGINT) < 0) {
        (void)kill(context, SIGINT);
    }
}

bool interrupt_send(pid_t context, const uint8_t *token)
{
    struct slot *s = find(context);
    uint64_t run = run_of(token);

    if (s == NULL) {
        send_signal(context);
        return true;
    }
    uint64_t word = atomic_load(&s->word);
    for (int i = 0; i < TRIES; i++) {
        bool is_open = state_in(word) == OPEN || state_in(word) == HIT;
        bool is_this = run == 0 || run_in(word) == run;
        if (is_open != is_this) { /* another run is open; this one is over, or awaited already */
            return word == (run | AWAITED);
        }
        uint64_t next = is_open ? run_in(word) | SENDING : run | AWAITED;
        if (!atomic_compare_exchange_strong(&s->word, &word, next)) {
            continue;
        }
        if (is_open) {
            send_signal(context);
            atomic_store(&s->word, run_in(word) | HIT);
        }
        return true;
    }
    return false;
}

void interrupt_forget(pid_t context)
{
    struct slot *s = find(context);

    if (s != NULL) {
        atomic_store(&s->pid, 0);
    }
}

void interrupt_attach(void)
{
    own = NULL;
    for (size_t i = 0; i < SLOTS && own == NULL; i++) {
        pid_t unused = 0;
        if (atomic_compare_exchange_strong(&slots[i].pid, &unused, getpid())) {
            own = &slots[i];
            atomic_store(&own->word, OVER);
        }
    }
}

bool interrupt_begin(const uint8_t *token)
{
    if (own == NULL) {
        return false;
    }
    own_run = run_of(token);
    return atomic_exchange(&own->word, own_run | OPEN) == (own_run | AWAITED);
}

bool interrupt_end(void)
{
    if (own == NULL) {
        return false;
    }
    uint64_t word = own_run | OPEN;
    while (!atomic_compare_exchange_strong(&own->word, &word, own_run | OVER)) {
        if (state_in(word) == SENDING) {
            sched_yield();
            word = own_run | HIT;
        }
    }
    if (state_in(word) != HIT) {
        return false;
    }
    sched_yield(); /* a pending signal is delivered before a system call returns */
    return true;
}
