/* SPDX-License-Identifier: Apache-2.0 */
/* Five hundred boxes later everything is as it was: processes, cgroups, mounts, descriptors. */
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "engine_fixture.h"
#include "proc_fixture.h"
#include "tap.h"

#define CYCLES 500

/* What may differ: a few cgroups and network namespaces that were held back for the next boxes. */
#define SLACK_FDS 128
#define SLACK_CGROUPS 32

/*
 * In a mount namespace of its own, no mounts of others appear. They disappear, though: removing a
 * folder removes what is mounted there in every namespace.
 */
static struct husk_engine *open_alone(void)
{
    if (geteuid() != 0) {
        SKIP("full isolation needs root");
    }
    CHECK_INT(unshare(CLONE_NEWNS), 0);
    CHECK_INT(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    return fixture_open();
}

struct counts {
    size_t client_fds;
    size_t launcher_fds;
    size_t zygote_fds;
    size_t processes; /* below the launcher */
    size_t cgroups;
    size_t mounts;
    size_t zygote_mounts;
};

/* Boxes are taken down after their answer: wait until there are none. */
static void wait_idle(pid_t zygote)
{
    static struct proc_list boxes;

    AWAIT((proc_children(zygote, &boxes), boxes.n == 0));
}

static struct counts count(void)
{
    static struct proc_list tree;
    pid_t launcher = proc_launcher();
    pid_t zygote = proc_zygote(launcher);

    wait_idle(zygote);
    proc_tree(launcher, &tree);
    return (struct counts){
        .client_fds = proc_count_fds(getpid()),
        .launcher_fds = proc_count_fds(launcher),
        .zygote_fds = proc_count_fds(zygote),
        .processes = tree.n,
        .cgroups = proc_count_cgroups(launcher),
        .mounts = proc_count_lines(getpid(), "mountinfo"),
        .zygote_mounts = proc_count_lines(zygote, "mountinfo"),
    };
}

static void check_same(const struct counts *before, const struct counts *after)
{
    CASE("descriptors %zu %zu %zu, then %zu %zu %zu; cgroups %zu, then %zu", before->client_fds,
         before->launcher_fds, before->zygote_fds, after->client_fds, after->launcher_fds,
         after->zygote_fds, before->cgroups, after->cgroups);
    CHECK_INT(after->client_fds, before->client_fds);
    CHECK(after->launcher_fds <= before->launcher_fds + SLACK_FDS);
    CHECK(after->zygote_fds <= before->zygote_fds + SLACK_FDS);
    CHECK_INT(after->processes, before->processes);
    CHECK(after->cgroups <= before->cgroups + SLACK_CGROUPS);
    CHECK(after->mounts <= before->mounts);
    CHECK_INT(after->zygote_mounts, before->zygote_mounts);
}

static void raise_event(void *user)
{
    CHECK_INT(eventfd_write(*(int *)user, 1), 0);
}

/* One box: most end by themselves, some are ended in every other way. */
static void one_cycle(struct husk_engine *engine, int i)
{
    static const struct {
        const char *code;
        uint64_t timeout_ms;
        uint64_t output_bytes;
        bool cancel;
        enum husk_status want;
    } rows[] = {
        {"pass", 0, 0, false, HUSK_COMPLETED},
        {"import os; os._exit(3)", 0, 0, false, HUSK_FAILED},
        {"import ctypes; ctypes.string_at(0)", 0, 0, false, HUSK_CRASHED},
        {"while True: pass", 5, 0, false, HUSK_TIMEOUT},
        {"while True: print('x' * 100)", 0, 2000, false, HUSK_FAILED},
        {"print('on')\nwhile True: pass", 0, 0, true, HUSK_CANCELLED},
        {"import os\nfor i in range(5): os.fork()", 0, 0, false, HUSK_COMPLETED},
        {"open('f', 'w').write('x' * 100000)", 0, 0, false, HUSK_COMPLETED},
    };
    size_t row = (size_t)i % ARRAY_LEN(rows);
    AUTO_CLOSE int cancel = eventfd(0, EFD_CLOEXEC);
    struct husk_spec spec = fixture_spec("python", HUSK_SCRIPT, rows[row].code);

    CASE("cycle %d: %s", i, rows[row].code);
    spec.limits.timeout_ms = rows[row].timeout_ms;
    spec.limits.output_bytes = rows[row].output_bytes;
    if (rows[row].cancel) {
        spec.cancel_fd = cancel;
        fixture_at_output(&spec, raise_event, &cancel);
    }
    AUTO_RESULT struct husk_result *r = fixture_run(engine, &spec);
    CHECK_STR(husk_status_name(r->status), husk_status_name(rows[row].want));
}

TEST_TIMEOUT(five_hundred_boxes_leave_nothing_behind, 120)
{
    AUTO_ENGINE struct husk_engine *engine = open_alone();

    for (int i = 0; i < 40; i++) {
        one_cycle(engine, i); /* what is kept for the next box is there after these */
    }
    struct counts before = count();
    for (int i = 0; i < CYCLES; i++) {
        one_cycle(engine, i);
    }
    struct counts after = count();
    check_same(&before, &after);
}

/*
 * Boxes that were still starting are given back when they are ready, as the engine goes about its
 * work.
 */
static void settle(struct husk_engine *engine)
{
    struct husk_pool_stats stats;
    struct husk_error e;

    do {
        husk_result_free(fixture_cell(engine, "1"));
        CHECK_OK(husk_pool_stats(engine, "python", &stats, &e), &e);
    } while (stats.starting > 0);
    wait_idle(proc_zygote(proc_launcher()));
}

TEST_TIMEOUT(fifty_pools_leave_nothing_behind, 60)
{
    AUTO_ENGINE struct husk_engine *engine = open_alone();
    struct counts before = {0};
    struct husk_error e;

    for (int i = 0; i < 50; i++) {
        CASE("pool %d", i);
        CHECK_OK(husk_pool_set(engine, "python", NULL, 5, 5, &e), &e);
        if (i % 2 == 0) { /* every other one is given up while its boxes start */
            CHECK_OK(husk_pool_wait(engine, "python", 5, &e), &e);
        }
        CHECK_OK(husk_pool_set(engine, "python", NULL, 0, 0, &e), &e);
        settle(engine);
        if (i == 9) {
            before = count();
        }
    }
    struct counts after = count();
    check_same(&before, &after);
}

TEST_TIMEOUT(twenty_engines_leave_nothing_behind, 120)
{
    static struct proc_list tree;

    husk_close(open_alone());
    size_t fds = proc_count_fds(getpid());
    size_t mounts = proc_count_lines(getpid(), "mountinfo");
    for (int i = 0; i < 20; i++) {
        CASE("engine %d", i);
        struct husk_engine *engine = fixture_open();
        husk_result_free(fixture_cell(engine, "1"));
        proc_tree(proc_launcher(), &tree);
        husk_close(engine);
        proc_wait_gone(&tree);
        proc_wait_no_cgroups(tree.pids[0]);
    }
    proc_children(getpid(), &tree);
    CHECK_INT(tree.n, 0); /* no zombie either */
    CHECK_INT(proc_count_fds(getpid()), fds);
    CHECK(proc_count_lines(getpid(), "mountinfo") <= mounts);
}
