/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a box and what comes after: killing, recycling, removing. On v1, v2 and hybrid. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "box/cgroup_impl.h"
#include "cgroup_fixture.h"
#include "tap.h"

static int shared_fd = -1; /* a memfd that outlives the box */

static void spin_30_ms_of_cpu(void)
{
    struct timespec t;

    do {
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    } while (t.tv_sec == 0 && t.tv_nsec < 30000000);
}

static void fork_bomb(void)
{
    for (;;) {
        if (fork() < 0) {
            usleep(100);
        }
    }
}

static void fill_shared(void)
{
    char block[4096] = {1};

    for (size_t i = 0; i < 4 * MIB / sizeof(block); i++) {
        CHECK_INT(write(shared_fd, block, sizeof(block)), sizeof(block));
    }
}

TEST(kill_ends_a_hundred_processes)
{
    AUTO_HOST struct cgroup_host *host = open_host();
    struct limits l = small_limits();
    AUTO_CGROUP struct cgroup *cg = make_cgroup(host, "hundred", &l);

    spawn_in(cg, fork_100);
    wait_for_pids(cg, 100);
    CHECK_INT(cgroup_recycle(cg), -EBUSY);
    kill_all(cg);
    CHECK_INT(read_number(cg, "pids.current", NULL), 0);
}

/* A list read by halves may miss some whose neighbours died meanwhile; never a stranger. */
TEST(members_can_be_killed_by_pid)
{
    AUTO_HOST struct cgroup_host *host = open_host();
    struct limits l = small_limits();
    AUTO_CGROUP struct cgroup *cg = make_cgroup(host, "members", &l);
    char path[PATH_MAX];

    beside(cg, "pids.max", path, sizeof(path));
    *strrchr(path, '/') = '\0';
    int dir = cg_open_dir(AT_FDCWD, path);
    CHECK(dir >= 0);
    CHECK_INT(cg_kill_members(dir), 0);
    CHECK(!cg_has_members(dir));
    spawn_in(cg, fork_100);
    wait_for_pids(cg, 100);
    CHECK(cg_has_members(dir));
    CHECK(cg_kill_members(dir) >= 50);
    while (cg_has_members(dir)) {
        cg_kill_members(dir);
    }
    fd_close(&dir);
    wait_empty(cg);
}

/* Where there are v1 limits, with them alone: without the unified tree there is no cgroup.kill. */
TEST(fork_bomb_is_killed)
{
    struct cgroup_facts facts;

    if (geteuid() != 0) {
        SKIP("needs root");
    }
    cgroup_probe(&facts);
    if (facts.kind != CGROUP_V2) {
        hide_mounts("cgroup2");
    }
    AUTO_HOST struct cgroup_host *host = open_host();
    CHECK(cgroup_host_facts(host)->kind != CGROUP_HYBRID);
    CHECK_INT(cgroup_host_facts(host)->kill, facts.kind == CGROUP_V2);

    struct limits l = small_limits();
    l.pids = 50;
    AUTO_CGROUP struct cgroup *cg = make_cgroup(host, "bomb", &l);
    spawn_in(cg, fork_bomb);
    wait_for_pids(cg, 50);
    kill_all(cg);
    CHECK_INT(read_number(cg, "pids.current", NULL), 0);
    CHECK_INT(read_number(cg, "pids.max", NULL), 50);
}

/*
 * Few descriptors while it is folded, every one of them again afterwards, and nothing is counted
 * anew.
 */
TEST(folded_cgroup_counts_on_and_can_be_used_again)
{
    AUTO_HOST struct cgroup_host *host = open_host();
    struct limits l = small_limits();
    struct cgroup_usage before;
    struct cgroup_usage folded;
    struct cgroup_usage u;

    l.pids = 8;
    AUTO_CGROUP struct cgroup *cg = make_cgroup(host, "folded", &l);
    CHECK_INT(cgroup_unfold(cg), 0);
    wait_for(spawn_in(cg, fork_until_refused));
    kill_all(cg);
    wait_for(spawn_in(cg, spin_30_ms_of_cpu));
    cgroup_usage(cg, &before);

    int open_before = dup(STDOUT_FILENO); /* the lowest number that is free */
    close(open_before);
    cgroup_fold(cg, false);
    cgroup_fold(cg, false);
    int open_folded = dup(STDOUT_FILENO);
    close(open_folded);
    CHECK(open_folded < open_before);
    cgroup_usage(cg, &folded);
    CHECK_INT(folded.cpu_ns, before.cpu_ns);
    CHECK_INT(folded.memory_peak, before.memory_peak);

    CHECK_INT(cgroup_unfold(cg), 1);
    cgroup_usage(cg, &u);
    CHECK_INT(u.pids_refused, 1);
    CHECK_INT(u.memory_peak, before.memory_peak);
    CHECK_INT(cgroup_recycle(cg), can_recycle(host) ? 0 : -EBUSY);
    CHECK_INT(WEXITSTATUS(wait_for(spawn_in(cg, fork_until_refused))), 7);
    kill_all(cg);
}

/* Of a box that waits not even the counters stay open where they can be found again. */
TEST(cgroup_folded_for_a_box_that_waits_loses_no_count)
{
    AUTO_HOST struct cgroup_host *host = open_host();
    struct limits l = small_limits();
    AUTO_CGROUP struct cgroup *cg = make_cgroup(host, "waiting", &l);
    struct cgroup_usage before;
    struct cgroup_usage after;
    struct usage_view view;
    int fds[USAGE_VIEW_FDS];

    wait_for(spawn_in(cg, spin_30_ms_of_cpu));
    wait_empty(cg);
    cgroup_usage(cg, &before);
    CHECK(before.cpu_ns > 0);

    cgroup_fold(cg, true);
    bool is_v1 = cgroup_oom_needs_watch(host);
    CHECK_INT(cgroup_view_export(cg, &view, fds) == 0, is_v1);
    cgroup_fold(cg, false); /* it waits no longer, but will live long */
    CHECK(cgroup_view_export(cg, &view, fds) > 0);

    CHECK_INT(cgroup_unfold(cg), 1);
    cgroup_usage(cg, &after);
    CHECK_INT(after.cpu_ns, before.cpu_ns);
    CHECK_INT(after.memory_peak, before.memory_peak);
    CHECK(cgroup_view_export(cg, &view, fds) > 0);
}

TEST(recycled_cgroup_starts_from_zero)
{
    struct cgroup_host *host = open_host();
    struct limits l = small_limits();
    struct cgroup_usage u;

    l.pids = 8;
    struct cgroup *cg = make_cgroup(host, "again", &l);
    wait_for(spawn_in(cg, fork_until_refused));
    kill_all(cg);
    wait_for(spawn_in(cg, hog));
    wait_for(spawn_in(cg, spin_30_ms_of_cpu));
    cgroup_usage(cg, &u);
    CHECK(u.oom_kills > 0 && u.pids_refused == 1 && u.cpu_ns >= 30000000);
    if (!can_recycle(host)) {
        CHECK_INT(cgroup_recycle(cg), -EBUSY);
        cgroup_free(cg);
        cgroup_host_close(host);
        return;
    }

    CHECK_INT(cgroup_recycle(cg), 0);
    cgroup_usage(cg, &u);
    CHECK_INT(u.oom_kills, 0);
    CHECK_INT(u.pids_refused, 0);
    CHECK_INT(u.pids_now, 0);
    CHECK(u.cpu_ns < 1000000);
    CHECK(u.memory_now <= MIB && u.memory_peak <= MIB);

    CHECK_INT(WEXITSTATUS(wait_for(spawn_in(cg, fork_until_refused))), 7);
    kill_all(cg);
    wait_for(spawn_in(cg, use_8_mib));
    cgroup_usage(cg, &u);
    CHECK_INT(u.oom_kills, 0);
    CHECK_INT(u.pids_refused, 1);
    CHECK(u.memory_peak >= 8 * MIB && u.memory_peak < 16 * MIB);
    cgroup_free(cg);
    cgroup_host_close(host);
}

/* A reader that was taken over tries. */
static void set_back(const struct cgroup *cg)
{
    struct usage_view view;
    int fds[USAGE_VIEW_FDS];
    size_t n = cgroup_view_export(cg, &view, fds);

    CHECK(n > 0);
    for (size_t i = 0; i < n; i++) {
        CHECK(lseek(fds[i], 0, SEEK_SET) == 0);
        (void)!write(fds[i], "0", 1);
    }
}

static bool counts_memory_in_v1(const struct cgroup_host *host)
{
    return cgroup_oom_needs_watch(host);
}

/*
 * The peak is its reader's to reset, before each cell: v2 resets it for that reader only, and in v1
 * there is no other.
 */
TEST(of_counters_that_are_given_away_only_the_peak_can_be_set_back)
{
    AUTO_HOST struct cgroup_host *host = open_host();
    struct limits l = small_limits();
    AUTO_CGROUP struct cgroup *cg = make_cgroup(host, "view", &l);
    struct cgroup_usage ours;
    struct cgroup_usage theirs;
    struct usage_view view;
    int fds[USAGE_VIEW_FDS];

    wait_for(spawn_in(cg, use_8_mib));
    wait_empty(cg);
    CHECK(cgroup_view_export(cg, &view, fds) > 0);
    cgroup_usage(cg, &ours);
    cgroup_view_usage(&view, fds, &theirs);
    CHECK(ours.memory_peak >= 8 * MIB && theirs.memory_peak == ours.memory_peak);
    uint64_t cpu_ns = ours.cpu_ns;
    set_back(cg);
    cgroup_usage(cg, &ours);
    CHECK(ours.memory_peak >= 8 * MIB || counts_memory_in_v1(host));
    CHECK(ours.cpu_ns >= cpu_ns);

    wait_for(spawn_in(cg, use_8_mib));
    wait_empty(cg);
    cgroup_view_usage(&view, fds, &theirs);
    CHECK(theirs.memory_peak >= 8 * MIB);
    if (cgroup_view_reset_peak(&view, fds)) { /* not before Linux 6.12 in v2 */
        cgroup_view_usage(&view, fds, &theirs);
        CHECK(theirs.memory_peak < 8 * MIB);
    }

    if (cgroup_recycle(cg) == 0) { /* the next box's view shows its own peak */
        cgroup_usage(cg, &ours);
        CHECK(ours.memory_peak <= MIB);
        CHECK(cgroup_view_export(cg, &view, fds) > 0);
        cgroup_view_usage(&view, fds, &theirs);
        CHECK(theirs.memory_peak <= MIB);
    }
}

TEST(memory_that_stays_charged_prevents_reuse)
{
    AUTO_HOST struct cgroup_host *host = open_host();
    struct limits l = small_limits();
    AUTO_CGROUP struct cgroup *cg = make_cgroup(host, "residue", &l);

    shared_fd = memfd_create("residue", MFD_CLOEXEC);
    CHECK(shared_fd >= 0);
    CHECK_INT(wait_for(spawn_in(cg, fill_shared)), 0);
    wait_empty(cg);
    CHECK_INT(cgroup_recycle(cg), -EBUSY);
    fd_close(&shared_fd);
    CHECK_INT(cgroup_recycle(cg), can_recycle(host) ? 0 : -EBUSY);
}

/* Its pids would be missing from the next box's limit. */
TEST(unreaped_process_prevents_reuse)
{
    AUTO_HOST struct cgroup_host *host = open_host();
    struct limits l = small_limits();
    AUTO_CGROUP struct cgroup *cg = make_cgroup(host, "zombie", &l);
    siginfo_t info;

    pid_t pid = spawn_in(cg, use_8_mib);
    CHECK(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0);
    CHECK_INT(cgroup_recycle(cg), -EBUSY);
    wait_for(pid);
    CHECK_INT(cgroup_recycle(cg), can_recycle(host) ? 0 : -EBUSY);
}

TEST(free_kills_what_runs)
{
    AUTO_HOST struct cgroup_host *host = open_host();
    struct limits l = small_limits();
    struct cgroup *cg = make_cgroup(host, "busy", &l);
    char path[PATH_MAX];

    beside(cg, "pids.max", path, sizeof(path));
    pid_t pid = spawn_in(cg, fork_100);
    wait_for_pids(cg, 100);
    cgroup_free(cg);
    CHECK(access(path, F_OK) < 0);
    int status = wait_for(pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST(free_removes_what_the_program_made_below)
{
    AUTO_HOST struct cgroup_host *host = open_host();
    struct limits l = small_limits();
    struct cgroup *cg = make_cgroup(host, "nested", &l);
    char path[PATH_MAX];

    beside(cg, "pids.max", path, sizeof(path));
    *strrchr(path, '/') = '\0';
    for (size_t i = 0; i < host->trees.n; i++) {
        CHECK(mkdirat(cg->dirs[i], CG_PARENT, 0755) == 0);
        CHECK(mkdirat(cg->dirs[i], CG_SELF, 0755) == 0);
    }
    cgroup_free(cg);
    CHECK(access(path, F_OK) < 0);
}

TEST(two_hundred_cycles_leave_nothing)
{
    struct cgroup_host *host = open_host();
    struct limits l = small_limits();
    struct stat st;
    char name[32];
    char path[PATH_MAX];

    instance_path(host, path, sizeof(path));
    CHECK(stat(path, &st) == 0);
    nlink_t links = st.st_nlink;
    for (int i = 0; i < 200; i++) {
        CHECK_INT(str_format(name, sizeof(name), "box%d", i), 0);
        struct cgroup *cg = make_cgroup(host, name, &l);
        if (i % 20 == 0) {
            spawn_stopped(cg);
        }
        cgroup_free(cg);
    }
    CHECK(stat(path, &st) == 0);
    CHECK_INT(st.st_nlink, links); /* one for each directory in it */
    cgroup_host_close(host);
    CHECK(stat(path, &st) < 0);
}
