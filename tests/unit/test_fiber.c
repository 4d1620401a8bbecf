/* SPDX-License-Identifier: Apache-2.0 */
/* Fibers: waiting, waking, queues, many at once. */
#include "base/fiber.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "tap.h"

static char story[256];

static void tell(const char *word)
{
    size_t used = strlen(story);

    CHECK_INT(str_format(story + used, sizeof(story) - used, "%s%s", used > 0 ? " " : "", word), 0);
}

static void close_pipe(int p[2])
{
    fd_close(&p[0]);
    fd_close(&p[1]);
}

struct pipe_reader {
    int fd;
    const char *name;
};

static void read_one(void *user)
{
    const struct pipe_reader *r = user;
    struct pollfd p = {.fd = r->fd, .events = POLLIN};
    char byte;

    tell(r->name);
    CHECK_INT(fiber_poll(&p, 1, -1), 1);
    CHECK_INT(read(r->fd, &byte, 1), 1);
    tell(r->name);
}

TEST(a_fiber_waits_and_others_go_on)
{
    int a[2];
    int b[2];

    CHECK_INT(pipe2(a, O_CLOEXEC), 0);
    CHECK_INT(pipe2(b, O_CLOEXEC), 0);
    struct pipe_reader first = {a[0], "a"};
    struct pipe_reader second = {b[0], "b"};
    CHECK_INT(fiber_start(read_one, &first), 0);
    CHECK_INT(fiber_start(read_one, &second), 0);
    CHECK(fiber_self() == NULL);
    CHECK_INT(fiber_count(), 2);
    CHECK_INT(write(b[1], "x", 1), 1);
    fiber_run();
    CHECK_INT(write(a[1], "x", 1), 1);
    fiber_run_all();
    CHECK_STR(story, "a b b a");
    CHECK_INT(fiber_count(), 0);
    close_pipe(a);
    close_pipe(b);
    fiber_release();
}

static void nap(void *user)
{
    uint64_t begun = clock_ms();

    (void)user;
    fiber_sleep(20);
    CHECK(clock_ms() - begun >= 20);
    tell("slept");
}

TEST(time_passes)
{
    CHECK_INT(fiber_start(nap, NULL), 0);
    CHECK(fiber_timeout() > 0);
    CHECK_INT(fiber_start(nap, NULL), 0);
    fiber_run_all();
    CHECK_STR(story, "slept slept");
    CHECK_INT(fiber_timeout(), -1);
    fiber_release();
}

static struct fiber *sleeper;

static void sleep_long(void *user)
{
    (void)user;
    sleeper = fiber_self();
    CHECK_INT(fiber_poll(NULL, 0, 1000000), 0);
    tell("woken");
}

TEST(a_wake_ends_a_wait)
{
    CHECK_INT(fiber_start(sleep_long, NULL), 0);
    fiber_run();
    CHECK_STR(story, "");
    fiber_wake(sleeper);
    CHECK_INT(fiber_timeout(), 0);
    fiber_run_all();
    CHECK_STR(story, "woken");
    fiber_release();
}

static struct fiber_queue queue;

static void stand_in_line(void *user)
{
    CHECK_INT(fiber_queue_wait(&queue, -1), 0);
    tell(user);
}

static void give_up(void *user)
{
    CHECK_INT(fiber_queue_wait(&queue, 5), -ETIMEDOUT);
    tell(user);
}

TEST(a_queue_keeps_its_order)
{
    CHECK_INT(fiber_start(stand_in_line, "one"), 0);
    CHECK_INT(fiber_start(give_up, "impatient"), 0);
    CHECK_INT(fiber_start(stand_in_line, "two"), 0);
    fiber_sleep(10); /* not a fiber: blocks */
    fiber_run();
    CHECK(fiber_queue_wake(&queue));
    CHECK(fiber_queue_wake(&queue));
    CHECK(!fiber_queue_wake(&queue));
    fiber_run_all();
    CHECK_STR(story, "impatient one two");
    fiber_release();
}

static void nested(void *user)
{
    int depth = *(int *)user;

    if (depth > 0) {
        int next = depth - 1;
        CHECK_INT(fiber_start(nested, &next), 0);
        fiber_sleep(1);
    }
    tell(depth == 0 ? "deep" : "up");
}

TEST(a_fiber_can_start_fibers)
{
    int depth = 3;

    CHECK_INT(fiber_start(nested, &depth), 0);
    fiber_run_all();
    CHECK_STR(story, "deep up up up");
    fiber_release();
}

static int done;

static void many(void *user)
{
    char on_the_stack[4096];

    memset(on_the_stack, *(int *)user & 0xff, sizeof(on_the_stack));
    int mine = *(int *)user;
    fiber_sleep(mine % 7);
    for (size_t i = 0; i < sizeof(on_the_stack); i++) {
        CHECK_INT((unsigned char)on_the_stack[i], mine & 0xff);
    }
    done++;
}

TEST(two_thousand_fibers_keep_their_stacks_apart)
{
    for (int i = 0; i < 2000; i++) {
        CHECK_INT(fiber_start(many, &i), 0);
    }
    fiber_run_all();
    CHECK_INT(done, 2000);
    fiber_release();
}

static int kept_set;
static int kept_rounds;

/* As one that waits for the events of many others does. */
static void wait_for_kept(void *user)
{
    for (int i = 0; i < 3; i++) {
        struct pollfd fd = {.fd = kept_set, .events = POLLIN};
        char c;

        CHECK_INT(fiber_poll_kept(&fd, -1), 1);
        CHECK_INT(read(*(int *)user, &c, 1), 1);
        kept_rounds++;
    }
    fiber_drop_kept();
}

TEST(a_set_that_is_kept_wakes_its_fiber_each_time)
{
    struct epoll_event in = {.events = EPOLLIN};
    int p[2];

    kept_set = epoll_create1(EPOLL_CLOEXEC);
    CHECK_INT(pipe2(p, O_CLOEXEC), 0);
    CHECK_INT(epoll_ctl(kept_set, EPOLL_CTL_ADD, p[0], &in), 0);
    CHECK_INT(fiber_start(wait_for_kept, &p[0]), 0);
    for (int i = 0; i < 3; i++) {
        fiber_run();
        CHECK_INT(kept_rounds, i);
        CHECK_INT(write(p[1], "x", 1), 1);
        fiber_run();
        CHECK_INT(kept_rounds, i + 1);
    }
    CHECK_INT(fiber_count(), 0);
    CHECK_INT(write(p[1], "x", 1), 1); /* of no fiber any more */
    fiber_run();
    close(kept_set);
    close_pipe(p);
    fiber_release();
}

TEST(outside_a_fiber_it_is_plain_poll)
{
    int p[2];

    CHECK_INT(pipe2(p, O_CLOEXEC), 0);
    struct pollfd fd = {.fd = p[0], .events = POLLIN};
    CHECK_INT(fiber_poll(&fd, 1, 1), 0);
    CHECK_INT(write(p[1], "x", 1), 1);
    CHECK_INT(fiber_poll(&fd, 1, -1), 1);
    close_pipe(p);
}
