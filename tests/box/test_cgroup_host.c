/* SPDX-License-Identifier: Apache-2.0 */
/* Our place in the hierarchies: finding it, in a slice or a container too, and cleaning up. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "box/cgroup_impl.h"
#include "cgroup_fixture.h"
#include "tap.h"

#define OWN "husk-test-own" /* stands for a slice, or the cgroup of a container */

static struct cgroup_host *open_named(const char *name)
{
    struct cgroup_host *host = NULL;
    struct err e;

    if (cgroup_host_open(name, true, &host, &e) < 0) {
        tap_fail(__FILE__, __LINE__, "cgroup_host_open: %s", e.msg);
    }
    return host;
}

TEST(probe_makes_nothing_and_agrees_with_the_host)
{
    struct cgroup_facts probed;
    struct stat before[CGROUP_PROCS_MAX];
    struct stat after;
    struct cg_trees trees;

    struct cgroup_host *host = open_host();
    cgroup_host_close(host);
    cg_find(&trees, &probed);
    for (size_t i = 0; i < trees.n; i++) {
        CHECK(fstat(trees.tree[i].base_fd, &before[i]) == 0);
    }
    cgroup_probe(&probed);
    for (size_t i = 0; i < trees.n; i++) {
        CHECK(fstat(trees.tree[i].base_fd, &after) == 0);
        CHECK_INT(after.st_nlink, before[i].st_nlink);
    }
    cg_trees_release(&trees);

    host = open_host();
    const struct cgroup_facts *f = cgroup_host_facts(host);
    CHECK(f->memory && f->cpu && f->pids);
    CHECK_STR(f->why_not, "");
    CHECK_INT(probed.kind, f->kind);
    CHECK_INT(probed.io, f->io);
    CHECK_INT(probed.kill, f->kill);
    CHECK(probed.memory && probed.cpu && probed.pids);
    cgroup_host_close(host);
}

TEST(instance_names_must_tell_who_it_is)
{
    static const char *const bad[] = {"",        "1",      "x-1",   "1-x",           "0-5", "5-0",
                                      "1-2-3-4", "../1-2", "1-2/3", "99999999999-1", "-1-2"};
    struct cgroup_host *host = NULL;
    struct err e;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        CASE("%s", bad[i]);
        CHECK_INT(cgroup_host_open(bad[i], false, &host, &e), -1);
        CHECK_INT(e.code, ERR_INVALID);
    }
}

TEST(second_host_of_that_name_leaves_the_first_alone)
{
    struct cgroup_host *host = open_host();
    struct cgroup_host *second = NULL;
    char name[CG_NAME_SIZE];
    char path[PATH_MAX];
    struct err e;

    instance_path(host, path, sizeof(path));
    CHECK_INT(cgroup_self_name(name, sizeof(name)), 0);
    CHECK_INT(cgroup_host_open(name, true, &second, &e), -1);
    CHECK_INT(e.code, ERR_EXISTS);
    CHECK(access(path, F_OK) == 0);
    cgroup_host_close(host);
    CHECK(access(path, F_OK) < 0);
}

TEST(close_kills_boxes_that_were_not_freed)
{
    struct cgroup_host *host = open_host();
    struct limits l = small_limits();
    char path[PATH_MAX];

    instance_path(host, path, sizeof(path));
    pid_t launcher = fork();
    CHECK(launcher >= 0);
    if (launcher == 0) {
        /* The struct dies with this process; its directories stay. */
        struct cgroup *cg = make_cgroup(host, "left", &l);
        spawn_stopped(cg);
        _exit(0);
    }
    CHECK_INT(wait_for(launcher), 0);
    cgroup_host_close(host);
    CHECK(access(path, F_OK) < 0);
    int status = 0;
    CHECK(waitpid(-1, &status, 0) > 0);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* A launcher with a running box, killed before it could clean up. *ret_path: its instance. */
static pid_t dead_launcher(char *ret_path, size_t size)
{
    int report[2];

    CHECK(pipe2(report, O_CLOEXEC) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        struct limits l = small_limits();
        char path[PATH_MAX] = "";
        struct cgroup_host *host = open_host();

        instance_path(host, path, sizeof(path));
        spawn_stopped(make_cgroup(host, "orphan", &l));
        CHECK_INT(write(report[1], path, sizeof(path)), sizeof(path));
        kill(getpid(), SIGKILL);
    }
    CHECK_INT(fd_read_all(report[0], ret_path, size), size);
    CHECK(waitid(P_PID, (id_t)pid, &(siginfo_t){0}, WEXITED | WNOWAIT) == 0);
    fd_close(&report[0]);
    fd_close(&report[1]);
    return pid;
}

TEST(sweep_removes_the_dead_and_leaves_the_living)
{
    struct cgroup_host *alive = open_host();
    char alive_path[PATH_MAX];
    char dead_path[PATH_MAX];
    char reused_path[PATH_MAX];
    char unseen_path[PATH_MAX];
    char strange_path[PATH_MAX];
    char name[CG_NAME_SIZE];
    int status = 0;

    instance_path(alive, alive_path, sizeof(alive_path));
    pid_t dead = dead_launcher(dead_path, sizeof(dead_path)); /* not waited for: still a zombie */
    CHECK_INT(str_format(name, sizeof(name), "%d-1", (int)getpid()), 0);
    struct cgroup_host *reused = open_named(name); /* our pid, the start time of another process */
    instance_path(reused, reused_path, sizeof(reused_path));
    /* Counted in a namespace unlike ours; the names are this test's own, whatever others left. */
    CHECK_INT(str_format(name, sizeof(name), "1-1-%d", (int)getpid()), 0);
    struct cgroup_host *unseen = open_named(name);
    instance_path(unseen, unseen_path, sizeof(unseen_path));
    CHECK_INT(str_format(strange_path, sizeof(strange_path), "%.*s/not-ours-%d",
                         (int)(strrchr(alive_path, '/') - alive_path), alive_path, (int)getpid()),
              0);
    CHECK(mkdir(strange_path, 0755) == 0);

    CHECK(cgroup_sweep() >= 2);
    CHECK(access(strange_path, F_OK) == 0 && rmdir(strange_path) == 0);
    CHECK(access(alive_path, F_OK) == 0);
    CHECK(access(unseen_path, F_OK) == 0);
    CHECK(access(dead_path, F_OK) < 0);
    CHECK(access(reused_path, F_OK) < 0);
    wait_for(dead);
    CHECK(waitpid(-1, &status, 0) > 0); /* its box, now our child */
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);

    cgroup_host_close(unseen);
    cgroup_host_close(reused);
    cgroup_host_close(alive);
}

/* Makes OWN in every hierarchy, for NOBODY to rule, and joins it. */
static void enter_own(void)
{
    static const char *const files[] = {".", "cgroup.procs", "cgroup.subtree_control", "tasks"};
    struct cgroup_facts facts;
    struct cg_trees trees;

    cgroup_host_close(open_host()); /* on v2 this enables the controllers at the top */
    cg_find(&trees, &facts);
    for (size_t i = 0; i < trees.n; i++) {
        CHECK(mkdirat(trees.tree[i].base_fd, OWN, 0755) == 0 || errno == EEXIST);
        int dir = cg_open_dir(trees.tree[i].base_fd, OWN);
        CHECK(dir >= 0);
        for (size_t k = 0; k < ARRAY_LEN(files); k++) {
            CHECK(fchownat(dir, files[k], NOBODY, NOBODY, 0) == 0 || errno == ENOENT);
        }
        CHECK_INT(fd_write_file(dir, "cgroup.procs", "0"), 0);
        fd_close(&dir);
    }
    cg_trees_release(&trees);
}

/* Says in how many hierarchies of how many our directory was made in OWN. */
static void remove_own(size_t *ret_parents, size_t *ret_trees)
{
    static const char *const below[] = {CG_PARENT, CG_SELF};
    struct cgroup_facts facts;
    struct cg_trees trees;

    *ret_parents = 0;
    cg_find(&trees, &facts);
    for (size_t i = 0; i < trees.n; i++) {
        int dir = cg_open_dir(trees.tree[i].base_fd, OWN);
        CHECK(dir >= 0);
        *ret_parents += faccessat(dir, CG_PARENT, F_OK, 0) == 0 ? 1 : 0;
        for (size_t k = 0; k < ARRAY_LEN(below); k++) {
            CHECK(unlinkat(dir, below[k], AT_REMOVEDIR) == 0 || errno == ENOENT);
        }
        fd_close(&dir);
        CHECK(unlinkat(trees.tree[i].base_fd, OWN, AT_REMOVEDIR) == 0);
    }
    *ret_trees = trees.n;
    cg_trees_release(&trees);
}

static void run_a_box(void)
{
    char name[CG_NAME_SIZE];
    struct limits l = small_limits();

    CHECK_INT(cgroup_self_name(name, sizeof(name)), 0);
    for (int i = 0; i < 2; i++) { /* the second time in the place that the first made for itself */
        struct cgroup_facts probed;
        cgroup_probe(&probed);
        CHECK_STR(probed.why_not, "");
        struct cgroup_host *host = open_named(name);
        struct cgroup *cg = make_cgroup(host, "box", &l);
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            static char memory[MIB];
            join(cg);
            memset(memory, 1, sizeof(memory));
            _exit(memory[MIB / 2] == 1 ? 0 : 1);
        }
        CHECK_INT(wait_for(pid), 0);
        struct cgroup_usage u;
        cgroup_usage(cg, &u);
        CHECK(u.cpu_ns > 0 && u.memory_peak >= MIB);
        cgroup_free(cg);
        cgroup_host_close(host);
    }
}

static void run_in_slice(void)
{
    CHECK(setgroups(0, NULL) == 0);
    CHECK(setresgid(NOBODY, NOBODY, NOBODY) == 0);
    CHECK(setresuid(NOBODY, NOBODY, NOBODY) == 0);
    run_a_box();
}

static void show_own_only(const char *point)
{
    char path[PATH_MAX];

    CHECK_INT(str_format(path, sizeof(path), "%s/" OWN, point), 0);
    if (access(path, F_OK) == 0) {
        CHECK(mount(path, point, NULL, MS_BIND, NULL) == 0);
    }
}

/* What a container gets: its own cgroup is all it sees, and looks like the root. */
static void see_own_only(void)
{
    CHECK(unshare(CLONE_NEWCGROUP | CLONE_NEWNS) == 0);
    CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    each_mount_point("cgroup", show_own_only);
    each_mount_point("cgroup2", show_own_only);
}

static void run_in_container(void)
{
    see_own_only();
    run_a_box();
}

/* As a process sees it whose cgroup namespace begins at OWN. */
static void check_is_in_own(pid_t pid)
{
    struct cgroup_facts facts;
    struct cg_trees trees;
    char text[1024];
    char want[32];

    CHECK_INT(str_format(want, sizeof(want), "%d\n", (int)pid), 0);
    cg_find(&trees, &facts);
    CHECK(trees.n > 0);
    for (size_t i = 0; i < trees.n; i++) {
        CHECK(fd_read_file(trees.tree[i].base_fd, "cgroup.procs", text, sizeof(text)) > 0);
        CHECK(strstr(text, want) != NULL);
    }
    cg_trees_release(&trees);
}

static void check_in_own(void (*run)(void))
{
    size_t parents;
    size_t trees;

    if (geteuid() != 0) {
        SKIP("needs root");
    }
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        enter_own();
        run();
        _exit(0);
    }
    CHECK_INT(wait_for(pid), 0);
    remove_own(&parents, &trees);
    CHECK_INT(parents, trees);
}

TEST(user_with_a_slice_of_his_own_gets_boxes_in_it)
{
    check_in_own(run_in_slice);
}

TEST(boxes_work_inside_a_container)
{
    check_in_own(run_in_container);
}

/* On v2 a process that is not ours is in the way, and must not be moved; v1 does not mind. */
static void run_beside_stranger(void)
{
    struct cgroup_facts facts;
    struct cgroup_host *host = NULL;
    char name[CG_NAME_SIZE];
    struct err e;

    pid_t stranger = fork();
    CHECK(stranger >= 0);
    if (stranger == 0) {
        sleep_forever();
    }
    see_own_only();
    cgroup_probe(&facts);
    CHECK_INT(cgroup_self_name(name, sizeof(name)), 0);
    int r = cgroup_host_open(name, true, &host, &e);
    if (facts.kind == CGROUP_V2) {
        CHECK(strstr(facts.why_not, "other processes live in our cgroup") != NULL);
        CHECK_INT(r, -1);
        CHECK_INT(e.code, ERR_ISOLATION);
    } else {
        CHECK_INT(r, 0);
        cgroup_host_close(host);
    }
    CHECK_INT(waitpid(stranger, NULL, WNOHANG), 0); /* it lives, and where it was */
    check_is_in_own(stranger);
    CHECK(kill(stranger, SIGKILL) == 0);
    wait_for(stranger);
}

/* As husk does it: the process that starts the launcher is there first, and stays. */
static void run_as_child(void)
{
    see_own_only();
    cgroup_make_room();
    pid_t launcher = fork();
    CHECK(launcher >= 0);
    if (launcher == 0) {
        run_a_box();
        _exit(0);
    }
    CHECK_INT(wait_for(launcher), 0);
}

TEST(launcher_finds_room_beside_the_one_who_started_it)
{
    check_in_own(run_as_child);
}

TEST(strangers_in_our_cgroup_are_left_where_they_are)
{
    check_in_own(run_beside_stranger);
}

static void check_refused(const char *reason)
{
    struct cgroup_host *host = NULL;
    struct cgroup *cg = NULL;
    struct limits l = small_limits();
    char name[CG_NAME_SIZE];
    int fds[CGROUP_PROCS_MAX];
    struct err e;

    CHECK_INT(cgroup_self_name(name, sizeof(name)), 0);
    CHECK_INT(cgroup_host_open(name, true, &host, &e), -1);
    CHECK_INT(e.code, ERR_ISOLATION);
    CHECK(strstr(e.msg, reason) != NULL);

    CHECK_INT(cgroup_host_open(name, false, &host, &e), 0);
    const struct cgroup_facts *f = cgroup_host_facts(host);
    CHECK(f->kind == CGROUP_NONE && !f->memory && !f->cpu && !f->pids && !f->kill);
    CHECK(strstr(f->why_not, reason) != NULL);
    CHECK_INT(cgroup_new(host, "box", &cg, &e), 0);
    CHECK_INT(cgroup_set_limits(cg, &l, &e), 0);
    CHECK_INT(cgroup_procs_fds(cg, fds), 0);
    cgroup_free(cg);
    cgroup_host_close(host);
}

TEST(host_without_cgroups_is_refused)
{
    if (geteuid() != 0) {
        SKIP("needs root to hide them");
    }
    hide_mounts("cgroup");
    hide_mounts("cgroup2");
    check_refused("no mounted cgroup hierarchy offers the memory controller");
}

/* A mount may have no source: then mountinfo has two blanks in a row. */
TEST(a_mount_without_a_source_is_found)
{
    char folder[] = "/tmp/husk-cgroup-XXXXXX";
    struct cgroup_facts facts;
    struct cg_trees trees;

    if (geteuid() != 0) {
        SKIP("needs root to mount");
    }
    hide_mounts("cgroup");
    hide_mounts("cgroup2");
    CHECK(mkdtemp(folder) != NULL);
    CHECK(mount("", folder, "cgroup2", 0, NULL) == 0);
    cg_find(&trees, &facts);
    CHECK_INT(trees.n, 1);
    CHECK(trees.tree[0].unified);
    cg_trees_release(&trees);
    CHECK(umount(folder) == 0);
    CHECK(rmdir(folder) == 0);
}

TEST(read_only_cgroups_are_refused)
{
    if (geteuid() != 0) {
        SKIP("needs root to make them so");
    }
    freeze_mounts("cgroup");
    freeze_mounts("cgroup2");
    check_refused("Read-only file system");
}
