/* SPDX-License-Identifier: Apache-2.0 */
/* Freezing a box. On v2 and hybrid hosts; v1 alone cannot, and says so. */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "box/cgroup_impl.h"
#include "cgroup_fixture.h"
#include "tap.h"

#define STILL_MS 100 /* a process that spins would be seen long before */

static atomic_ulong *ticks; /* shared with what runs in the box */

static void share_ticks(void)
{
    ticks = mmap(NULL, sizeof(*ticks), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(ticks != MAP_FAILED);
}

static void spin(void)
{
    for (;;) {
        atomic_fetch_add(ticks, 1);
    }
}

/* Waits for a signal, then has a child that spins: what a box does after it was prepared. */
static void fork_when_told(void)
{
    raise(SIGSTOP);
    if (fork() == 0) {
        spin();
    }
    sleep_forever();
}

static struct cgroup *make_box(struct cgroup_host *host, const char *name)
{
    struct limits l = small_limits();
    struct cgroup *cg = NULL;
    struct err e = {0};

    CHECK_INT(cgroup_new_box(host, name, &cg, &e), 0);
    CHECK_INT(cgroup_set_limits(cg, &l, &e), 0);
    return cg;
}

static bool can_freeze(struct cgroup_host *host)
{
    const struct cgroup_facts *f = cgroup_host_facts(host);

    CHECK_INT(f->freeze, f->kind == CGROUP_V2 || f->kind == CGROUP_HYBRID);
    return f->freeze;
}

static unsigned long count_for(unsigned ms)
{
    uint64_t until = clock_ms() + ms;
    unsigned long before = atomic_load(ticks);

    while (clock_ms() < until) {
        usleep(1000);
    }
    return atomic_load(ticks) - before;
}

/* A box that was prepared and in which a child runs now. */
static pid_t start_box(struct cgroup *cg)
{
    int status = 0;

    share_ticks();
    pid_t first = spawn_in(cg, fork_when_told);
    CHECK_INT(waitpid(first, &status, WUNTRACED), first);
    CHECK_INT(cgroup_prepare_freeze(cg, first), 0);
    CHECK_INT(kill(first, SIGCONT), 0);
    AWAIT(atomic_load(ticks) > 0);
    return first;
}

TEST(a_frozen_box_stands_still_and_goes_on)
{
    AUTO_HOST struct cgroup_host *host = open_host();
    AUTO_CGROUP struct cgroup *cg = make_box(host, "still");

    if (!can_freeze(host)) {
        CHECK_INT(cgroup_prepare_freeze(cg, getpid()), -ENOTSUP);
        CHECK_INT(cgroup_freeze(cg, true), -ENOTSUP);
        return;
    }
    start_box(cg);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(cgroup_freeze(cg, true), 0);
        AWAIT(count_for(1) == 0);
        CHECK_INT(count_for(STILL_MS), 0);
        CHECK_INT(cgroup_freeze(cg, false), 0);
        AWAIT(count_for(1) > 0);
    }
    kill_all(cg);
}

TEST(a_frozen_box_can_be_killed_by_its_first_process_or_as_a_whole)
{
    AUTO_HOST struct cgroup_host *host = open_host();

    for (int whole = 0; whole < 2 && can_freeze(host); whole++) {
        AUTO_CGROUP struct cgroup *cg = make_box(host, whole ? "whole" : "first");
        pid_t first = start_box(cg);
        CHECK_INT(cgroup_freeze(cg, true), 0);
        AWAIT(count_for(1) == 0);
        if (!whole) {
            CHECK_INT(kill(first, SIGKILL), 0);
            CHECK(WIFSIGNALED(wait_for(first)));
        }
        kill_all(cg); /* fails unless it becomes empty */
    }
}

TEST(a_box_with_more_than_one_process_is_not_prepared)
{
    AUTO_HOST struct cgroup_host *host = open_host();
    AUTO_CGROUP struct cgroup *cg = make_box(host, "many");

    if (!can_freeze(host) || cg->first == 0) {
        return; /* on v2 it is in the tree from its start */
    }
    pid_t first = spawn_stopped(cg);
    spawn_stopped(cg);
    CHECK_INT(cgroup_prepare_freeze(cg, first), -EBUSY);
    CHECK(!cg->made[0]);
    CHECK_INT(cgroup_freeze(cg, true), -ENOTSUP);
    kill_all(cg);
}

/* A frozen one would stop the next box at its birth; the next box would not be in a twin. */
TEST(a_cgroup_is_not_used_again_as_long_as_it_is_frozen)
{
    AUTO_HOST struct cgroup_host *host = open_host();
    AUTO_CGROUP struct cgroup *cg = make_box(host, "again");

    if (!can_freeze(host)) {
        return;
    }
    start_box(cg);
    CHECK_INT(cgroup_freeze(cg, true), 0);
    kill_all(cg);
    if (cg->first > 0) {
        CHECK_INT(cgroup_recycle(cg), -EBUSY);
    } else if (cgroup_recycle(cg) == 0) {
        CHECK_INT(read_number(cg, "cgroup.freeze", NULL), 0);
    }
}
