/* SPDX-License-Identifier: Apache-2.0 */
/* runner/sweep.h, called by the first process of a pid namespace, as PID 1 of a box is. */
#include "runner/sweep.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/units.h"
#include "tap.h"
#include "wire/frame.h"

#define TICK_NS 10000000u /* of start times in /proc */

static uint64_t boot_ns(void)
{
    struct timespec t;

    CHECK_INT(clock_gettime(CLOCK_BOOTTIME, &t), 0);
    return (uint64_t)t.tv_sec * NS_PER_SEC + (uint64_t)t.tv_nsec;
}

/* The start of a tick: what runs already began before it. */
static uint64_t next_tick(void)
{
    uint64_t tick = boot_ns() / TICK_NS + 1;

    while (boot_ns() / TICK_NS < tick) {
        sched_yield();
    }
    return tick * TICK_NS;
}

static pid_t start_idle(void)
{
    pid_t pid = fork();

    while (pid == 0) {
        pause();
    }
    CHECK(pid > 0);
    return pid;
}

/* A process whose parent is idle, too, or has ended: then it is a child of PID 1. */
static pid_t start_below(bool parent_stays, pid_t *ret_parent)
{
    int told[2];
    pid_t child = 0;

    CHECK_INT(pipe2(told, O_CLOEXEC), 0);
    *ret_parent = fork();
    if (*ret_parent == 0) {
        child = start_idle();
        if (write(told[1], &child, sizeof(child)) != (ssize_t)sizeof(child) || !parent_stays) {
            _exit(0);
        }
        for (;;) {
            pause();
        }
    }
    CHECK_INT(read(told[0], &child, sizeof(child)), sizeof(child));
    close(told[0]);
    close(told[1]);
    if (!parent_stays) {
        CHECK_INT(waitpid(*ret_parent, NULL, 0), *ret_parent);
    }
    return child;
}

/* kill() finds the dead as long as they are not reaped: sweep() reaps those of PID 1. */
static bool lives(pid_t pid)
{
    return kill(pid, 0) == 0;
}

static void order(struct buf *ret, uint64_t since, const pid_t *contexts, size_t n)
{
    CHECK_INT(frame_begin(ret, FRAME_SWEEP, NULL), 0);
    for (size_t i = 0; i < n; i++) {
        CHECK_INT(frame_add_u32(ret, KEY_PID, (uint32_t)contexts[i]), 0);
    }
    CHECK_INT(frame_add_u64(ret, KEY_SINCE, since) + frame_add_u64(ret, KEY_ORDER, 77), 0);
    CHECK_INT(frame_end(ret), 0);
    buf_consume(ret, sizeof(struct frame_head));
}

/* As the first process of a new pid namespace: sweep() signals every process that it can see. */
static void in_a_namespace(void (*run)(void))
{
    int status = 0;

    if (geteuid() != 0) {
        SKIP("a pid namespace needs root");
    }
    pid_t outer = fork();
    if (outer == 0) {
        CHECK_INT(unshare(CLONE_NEWNS | CLONE_NEWPID), 0);
        pid_t init = fork();
        if (init == 0) {
            CHECK_INT(getpid(), 1);
            CHECK_INT(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
            CHECK_INT(mount("proc", "/proc", "proc", 0, NULL), 0);
            run();
            _exit(0);
        }
        CHECK_INT(waitpid(init, &status, 0), init);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    }
    CHECK_INT(waitpid(outer, &status, 0), outer);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void kill_the_young(void)
{
    AUTO_BUF struct buf request = BUF_INIT(1024);
    uint64_t number = 0;
    pid_t parent;
    pid_t contexts[2] = {start_idle()};
    pid_t old = start_idle();
    uint64_t since = next_tick();

    pid_t young = start_idle();
    pid_t orphan = start_below(false, &parent);
    pid_t spared = start_below(true, &contexts[1]); /* of another context, itself as young */
    order(&request, since, contexts, 2);
    CHECK_INT(sweep(&request, &number), 0);
    CHECK_INT(number, 77);
    CHECK(!lives(young));
    CHECK(!lives(orphan));
    CHECK(lives(old) && lives(contexts[0]) && lives(contexts[1]) && lives(spared));

    /* Those that are left run again. */
    CHECK_INT(kill(old, SIGTERM), 0);
    CHECK_INT(waitpid(old, NULL, 0), old);
}

TEST(a_sweep_kills_what_was_started_since_but_no_context_and_nothing_of_another)
{
    in_a_namespace(kill_the_young);
}

static void keep_a_young_context(void)
{
    AUTO_BUF struct buf request = BUF_INIT(1024);
    uint64_t number = 0;
    uint64_t since = next_tick();
    pid_t own;

    pid_t below = start_below(true, &own); /* the context whose cell has ended */
    order(&request, since, &own, 1);
    CHECK_INT(sweep(&request, &number), 0);
    CHECK(lives(own));
    CHECK_INT(kill(below, 0), 0); /* dead, and its parent has not reaped it */
    AUTO_BUF struct buf again = BUF_INIT(1024);
    order(&again, since, &own, 1);
    CHECK_INT(sweep(&again, &number), 0); /* the dead are nothing to wait for */
}

TEST(a_sweep_keeps_the_context_that_it_is_about_but_not_its_children)
{
    in_a_namespace(keep_a_young_context);
}

static void kill_nothing_without_a_time(void)
{
    AUTO_BUF struct buf nothing = BUF_INIT(16);
    uint64_t number = 1;
    pid_t one = start_idle();

    CHECK_INT(sweep(&nothing, &number), 0);
    CHECK_INT(number, 0);
    CHECK(lives(one));
}

TEST(a_request_without_a_time_kills_nothing)
{
    in_a_namespace(kill_nothing_without_a_time);
}
