/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes in cgroups: joining, each limit, counters. The same on v1, v2 and hybrid. */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "box/cgroup_impl.h"
#include "cgroup_fixture.h"
#include "tap.h"

static int shared_fd = -1; /* a file that the box writes to */

static void spin(void)
{
    for (volatile uint64_t i = 0;; i++) {
    }
}

static void write_1_mib(void)
{
    static char block[65536] __attribute__((aligned(4096)));

    for (size_t i = 0; i < MIB / sizeof(block); i++) {
        CHECK_INT(write(shared_fd, block, sizeof(block)), sizeof(block));
    }
}

TEST(child_without_rights_joins_every_hierarchy)
{
    AUTO_HOST struct cgroup_host *host = open_host();
    struct limits l = small_limits();
    AUTO_CGROUP struct cgroup *cg = make_cgroup(host, "join", &l);
    int fds[CGROUP_PROCS_MAX];
    char path[64];
    char text[8192];
    size_t joined = 0;

    CHECK(cgroup_is_empty(cg));
    pid_t pid = spawn_stopped(cg);
    CHECK(!cgroup_is_empty(cg));
    CHECK_INT(str_format(path, sizeof(path), "/proc/%d/cgroup", (int)pid), 0);
    CHECK(fd_read_file(AT_FDCWD, path, text, sizeof(text)) > 0);
    for (const char *at = strstr(text, "/join\n"); at != NULL; at = strstr(at + 1, "/join\n")) {
        joined++;
    }
    CHECK_INT(joined, cgroup_procs_fds(cg, fds));

    CHECK_INT(cgroup_kill(cg), 0);
    CHECK(WIFSIGNALED(wait_for(pid)));
    wait_empty(cg);
}

TEST(memory_hog_is_killed_and_counted)
{
    AUTO_HOST struct cgroup_host *host = open_host();
    struct limits l = small_limits();
    AUTO_CGROUP struct cgroup *cg = make_cgroup(host, "hog", &l);
    struct cgroup_usage u;

    CHECK_INT(wait_for(spawn_in(cg, use_8_mib)), 0);
    cgroup_usage(cg, &u);
    CHECK_INT(u.oom_kills, 0);
    CHECK(u.memory_peak >= 8 * MIB);

    int status = wait_for(spawn_in(cg, hog));
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    cgroup_usage(cg, &u);
    CHECK(u.oom_kills > 0); /* v2 counts the first victim of a group twice */
    CHECK(u.memory_peak > l.memory_bytes / 2 && u.memory_peak <= l.memory_bytes);
    CHECK(u.memory_now < l.memory_bytes / 2);
}

TEST(out_of_memory_takes_one_process_of_a_session)
{
    AUTO_HOST struct cgroup_host *host = open_host();
    struct limits l = small_limits();
    struct err e;

    l.memory_bytes = 32 * MIB;
    struct cgroup *cg = make_cgroup(host, "session", &l);
    CHECK_INT(cgroup_set_oom(cg, true, &e), 0);
    pid_t other = spawn_stopped(cg);
    int status = wait_for(spawn_in(cg, hog));
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    CHECK_INT(cgroup_oom_kills(cg), 1);
    CHECK_INT(waitpid(other, NULL, WNOHANG), 0);
    CHECK(!cgroup_is_empty(cg));

    /* The next box of a recycled cgroup may be one program again. */
    CHECK_INT(cgroup_set_oom(cg, false, &e), 0);
    if (cgroup_host_facts(host)->kind == CGROUP_V2) {
        CHECK_INT(read_number(cg, "memory.oom.group", NULL), 1);
    }
    cgroup_free(cg);
    wait_for(other);
}

TEST(forks_beyond_the_limit_are_refused_and_counted)
{
    AUTO_HOST struct cgroup_host *host = open_host();
    struct limits l = small_limits();
    struct cgroup_usage u;

    l.pids = 8;
    AUTO_CGROUP struct cgroup *cg = make_cgroup(host, "forks", &l);
    CHECK_INT(WEXITSTATUS(wait_for(spawn_in(cg, fork_until_refused))), 7);
    cgroup_usage(cg, &u);
    CHECK_INT(u.pids_refused, 1);
    CHECK_INT(u.pids_now, 7);
    kill_all(cg);
}

/* How often the quota stopped the box. On a hybrid host the unified twin has a cpu.stat as well. */
static uint64_t throttled(const struct cgroup_host *host, const struct cgroup *cg)
{
    bool v1 = cgroup_host_facts(host)->kind != CGROUP_V2;
    char path[PATH_MAX];

    beside(cg, v1 ? "cpu.cfs_quota_us" : "cpu.max", path, sizeof(path));
    *strrchr(path, '/') = '\0';
    int dir = cg_open_dir(AT_FDCWD, path);
    int fd = openat(dir, "cpu.stat", O_RDONLY | O_CLOEXEC);
    uint64_t times = cg_read_key(fd, "nr_throttled");
    fd_close(&fd);
    fd_close(&dir);
    return times;
}

/* Only more CPU time than allowed is a fault: a busy machine may well give less. */
TEST(cpu_time_stays_within_the_quota)
{
    AUTO_HOST struct cgroup_host *host = open_host();
    struct limits l = small_limits();
    struct cgroup_usage u;

    l.cpu_milli = 200;
    AUTO_CGROUP struct cgroup *cg = make_cgroup(host, "cpu", &l);
    uint64_t start = clock_ns();
    spawn_in(cg, spin);
    spawn_in(cg, spin);
    AWAIT((cgroup_usage(cg, &u), u.cpu_ns >= 200 * 1000000ull));
    uint64_t elapsed = clock_ns() - start;

    CHECK(u.cpu_ns < elapsed * 35 / 100);
    CHECK(throttled(host, cg) > 0 || u.cpu_ns < elapsed * 20 / 100); /* or had no chance to */
    kill_all(cg);
}

TEST(limits_are_written_once_and_move_both_ways)
{
    static const uint64_t memory[] = {64 * MIB, 32 * MIB, 128 * MIB, 16 * MIB};
    AUTO_HOST struct cgroup_host *host = open_host();
    struct limits l = small_limits();
    AUTO_CGROUP struct cgroup *cg = make_cgroup(host, "limits", &l);
    bool v1 = cgroup_host_facts(host)->kind != CGROUP_V2;
    char path[PATH_MAX];
    struct err e;

    for (size_t i = 0; i < ARRAY_LEN(memory); i++) {
        l.memory_bytes = memory[i];
        CHECK_INT(cgroup_set_limits(cg, &l, &e), 0);
        CHECK_INT(read_number(cg, v1 ? "memory.limit_in_bytes" : "memory.max", NULL), memory[i]);
    }
    l.cpu_milli = 10;
    CHECK_INT(cgroup_set_limits(cg, &l, &e), 0);
    CHECK_INT(read_number(cg, v1 ? "cpu.cfs_quota_us" : "cpu.max", NULL), 1000);

    beside(cg, "pids.max", path, sizeof(path));
    write_text(path, "77");
    CHECK_INT(cgroup_set_limits(cg, &l, &e), 0);
    CHECK_INT(read_number(cg, "pids.max", NULL), 77); /* it was not written again */
    l.pids = 5;
    CHECK_INT(cgroup_set_limits(cg, &l, &e), 0);
    CHECK_INT(read_number(cg, "pids.max", NULL), 5);

    l.pids = 0;
    CHECK_INT(cgroup_set_limits(cg, &l, &e), -1);
    CHECK_INT(e.code, ERR_INVALID);
    CHECK_INT(read_number(cg, "pids.max", NULL), 5);
}

TEST(box_gets_no_swap)
{
    AUTO_HOST struct cgroup_host *host = open_host();
    struct limits l = small_limits();
    AUTO_CGROUP struct cgroup *cg = make_cgroup(host, "swap", &l);

    if (cgroup_host_facts(host)->kind == CGROUP_V2) {
        CHECK_INT(read_number(cg, "memory.oom.group", NULL), 1);
        CHECK_INT(read_number(cg, "memory.swap.max", NULL), 0);
    } else {
        CHECK_INT(read_number(cg, "memory.swappiness", NULL), 0);
        CHECK_INT(read_number(cg, "memory.memsw.limit_in_bytes", NULL), l.memory_bytes);
    }
}

TEST(block_io_is_counted_or_zero)
{
    char name[] = "/var/tmp/husk-io-XXXXXX";
    struct cgroup_usage u;
    struct stat st;

    shared_fd = mkostemp(name, O_CLOEXEC | O_DIRECT);
    if (shared_fd < 0) {
        SKIP("no direct I/O in /var/tmp");
    }
    unlink(name);
    CHECK(fstat(shared_fd, &st) == 0);
    if (major(st.st_dev) == 0) {
        SKIP("/var/tmp is not on a block device");
    }

    AUTO_HOST struct cgroup_host *host = open_host();
    struct limits l = small_limits();
    AUTO_CGROUP struct cgroup *cg = make_cgroup(host, "io", &l);
    CHECK_INT(wait_for(spawn_in(cg, write_1_mib)), 0);
    cgroup_usage(cg, &u);
    if (cgroup_host_facts(host)->io) {
        CHECK(u.io_write >= MIB && u.io_write < 2 * MIB);
    } else {
        CHECK_INT(u.io_write, 0);
    }
    if (can_recycle(host)) {
        CHECK_INT(cgroup_recycle(cg), 0);
        cgroup_usage(cg, &u);
        CHECK_INT(u.io_write, 0);
    }
    fd_close(&shared_fd);
}

/* Few kernels still count on v1, so what they write is checked from a copy. */
TEST(io_counts_of_all_disks_are_summed)
{
    static const char v1[] = "8:0 Read 100\n8:0 Write 7\n8:0 Total 107\n"
                             "8:16 Read 20\n8:16 Write 5\n8:16 Total 25\nTotal 132\n";
    static const char v2[] = "8:0 rbytes=100 wbytes=7 rios=1 wios=1 dbytes=0 dios=0\n"
                             "8:16 rbytes=20 wbytes=5 rios=1 wios=1 dbytes=0 dios=0\n";

    CHECK_INT(cg_sum(v1, " Read "), 120);
    CHECK_INT(cg_sum(v1, " Write "), 12);
    CHECK_INT(cg_sum(v2, " rbytes="), 120);
    CHECK_INT(cg_sum(v2, " wbytes="), 12);
    CHECK_INT(cg_sum("Total 0\n", " Read "), 0);
}

TEST(bad_and_taken_names_are_refused)
{
    static const char *const bad[] = {"", ".", "..", "a/b", "A", "../x"};
    AUTO_HOST struct cgroup_host *host = open_host();
    struct limits l = small_limits();
    AUTO_CGROUP struct cgroup *cg = make_cgroup(host, "taken", &l);
    struct cgroup *other = NULL;
    struct err e;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        CASE("%s", bad[i]);
        CHECK_INT(cgroup_new(host, bad[i], &other, &e), -1);
        CHECK_INT(e.code, ERR_INVALID);
    }
    CHECK_INT(cgroup_new(host, "taken", &other, &e), -1);
    CHECK_INT(e.code, ERR_EXISTS);
    CHECK(other == NULL);
    CHECK_INT(wait_for(spawn_in(cg, use_8_mib)), 0); /* the first is still there */
}
