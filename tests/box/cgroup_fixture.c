/* SPDX-License-Identifier: Apache-2.0 */
/* What the cgroup tests share; see cgroup_fixture.h. */
#include "cgroup_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "box/cgroup_impl.h"
#include "tap.h"

#define POINTS_MAX 32

struct limits small_limits(void)
{
    struct limits l = limits_default();

    l.memory_bytes = 64 * MIB;
    l.disk_bytes = MIB;
    l.inodes = 1024;
    l.pids = 200;
    return l;
}

struct cgroup_host *open_host(void)
{
    struct cgroup_host *host = NULL;
    char name[CG_NAME_SIZE];
    struct err e;

    if (geteuid() != 0) {
        SKIP("needs root");
    }
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    CHECK_INT(cgroup_self_name(name, sizeof(name)), 0);
    if (cgroup_host_open(name, true, &host, &e) < 0) {
        tap_fail(__FILE__, __LINE__, "cgroup_host_open: %s", e.msg);
    }
    return host;
}

struct cgroup *make_cgroup(struct cgroup_host *host, const char *name, const struct limits *l)
{
    struct cgroup *cg = NULL;
    struct err e;

    if (cgroup_new(host, name, &cg, &e) < 0 || cgroup_set_limits(cg, l, &e) < 0) {
        tap_fail(__FILE__, __LINE__, "make_cgroup: %s", e.msg);
    }
    return cg;
}

void join(const struct cgroup *cg)
{
    int fds[CGROUP_PROCS_MAX];
    size_t n = cgroup_procs_fds(cg, fds);

    for (size_t i = 0; i < n; i++) {
        CHECK_INT(write(fds[i], "0", 1), 1);
    }
}

pid_t spawn_in(const struct cgroup *cg, void (*run)(void))
{
    pid_t pid = fork();

    CHECK(pid >= 0);
    if (pid == 0) {
        CHECK(setgroups(0, NULL) == 0);
        CHECK(setresgid(NOBODY, NOBODY, NOBODY) == 0);
        CHECK(setresuid(NOBODY, NOBODY, NOBODY) == 0);
        join(cg);
        run();
        _exit(0);
    }
    return pid;
}

static void stop_self(void)
{
    raise(SIGSTOP);
    sleep_forever();
}

pid_t spawn_stopped(const struct cgroup *cg)
{
    int status = 0;
    pid_t pid = spawn_in(cg, stop_self);

    CHECK_INT(waitpid(pid, &status, WUNTRACED), pid);
    CHECK(WIFSTOPPED(status));
    return pid;
}

int wait_for(pid_t pid)
{
    int status = 0;

    CHECK_INT(waitpid(pid, &status, 0), pid);
    return status;
}

void wait_empty(const struct cgroup *cg)
{
    AWAIT(cgroup_is_empty(cg));
    while (waitpid(-1, NULL, 0) > 0) {
    }
    CHECK_INT(errno, ECHILD);
}

void kill_all(struct cgroup *cg)
{
    CHECK_INT(cgroup_kill(cg), 0);
    wait_empty(cg);
}

void fixture_host_close(struct cgroup_host **host)
{
    cgroup_host_close(*host);
}

void fixture_cgroup_free(struct cgroup **cg)
{
    cgroup_free(*cg);
}

void sleep_forever(void)
{
    for (;;) {
        pause();
    }
}

static void touch(char *p, size_t n)
{
    for (size_t i = 0; i < n; i += 4096) {
        ((volatile char *)p)[i] = 1;
    }
}

static void use_memory(size_t n)
{
    char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(p != MAP_FAILED);
    touch(p, n);
    munmap(p, n);
}

void use_8_mib(void)
{
    use_memory(8 * MIB);
}

void hog(void)
{
    use_memory(256 * MIB);
}

void fork_until_refused(void)
{
    int made = 0;

    for (pid_t pid = fork(); pid >= 0; pid = fork()) {
        if (pid == 0) {
            sleep_forever();
        }
        made++;
    }
    CHECK_INT(errno, EAGAIN);
    _exit(made);
}

void fork_100(void)
{
    for (int i = 0; i < 99; i++) {
        if (fork() == 0) {
            sleep_forever();
        }
    }
    sleep_forever();
}

/* Processes in the box, counted by the pids controller. */
void wait_for_pids(const struct cgroup *cg, uint64_t count)
{
    AWAIT(read_number(cg, "pids.current", NULL) >= count);
}

/* v2 before 6.12 has a memory peak that cannot be reset. */
bool can_recycle(const struct cgroup_host *host)
{
    struct utsname u;
    unsigned version = 0;
    unsigned patch = 0;

    CHECK(uname(&u) == 0 && sscanf(u.release, "%u.%u", &version, &patch) == 2);
    return cgroup_host_facts(host)->kind != CGROUP_V2 || version > 6 ||
           (version == 6 && patch >= 12);
}

void beside(const struct cgroup *cg, const char *file, char *path, size_t size)
{
    int fds[CGROUP_PROCS_MAX];
    size_t n = cgroup_procs_fds(cg, fds);
    char link[32];
    char target[PATH_MAX];

    for (size_t i = 0; i < n; i++) {
        CHECK_INT(str_format(link, sizeof(link), "/proc/self/fd/%d", fds[i]), 0);
        ssize_t len = readlink(link, target, sizeof(target) - 1);
        CHECK(len > 0);
        target[len] = '\0';
        *strrchr(target, '/') = '\0';
        CHECK_INT(str_format(path, size, "%s/%s", target, file), 0);
        if (access(path, F_OK) == 0) {
            return;
        }
    }
    tap_fail(__FILE__, __LINE__, "no cgroup directory has %s", file);
}

uint64_t read_number(const struct cgroup *cg, const char *file, const char *key)
{
    char path[PATH_MAX];

    beside(cg, file, path, sizeof(path));
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    uint64_t value = key == NULL ? cg_read_u64(fd) : cg_read_key(fd, key);
    fd_close(&fd);
    return value;
}

void instance_path(struct cgroup_host *host, char *path, size_t size)
{
    struct limits l = small_limits();
    struct cgroup *cg = make_cgroup(host, "where", &l);

    beside(cg, "pids.max", path, size);
    for (int i = 0; i < 2; i++) {
        *strrchr(path, '/') = '\0';
    }
    cgroup_free(cg);
}

void write_text(const char *path, const char *text)
{
    CHECK_INT(fd_write_file(AT_FDCWD, path, text), 0);
}

void each_mount_point(const char *fstype, void (*visit)(const char *point))
{
    static char points[POINTS_MAX][256];
    size_t n = 0;
    char line[4096];
    char want[64];
    FILE *f = fopen("/proc/self/mountinfo", "re");

    CHECK(f != NULL);
    CHECK_INT(str_format(want, sizeof(want), " - %s ", fstype), 0);
    while (fgets(line, sizeof(line), f) != NULL && n < POINTS_MAX) {
        if (strstr(line, want) != NULL && sscanf(line, "%*s %*s %*s %*s %255s", points[n]) == 1) {
            n++;
        }
    }
    fclose(f);
    while (n-- > 0) {
        visit(points[n]);
    }
}

static void own_mounts(void)
{
    CHECK(unshare(CLONE_NEWNS) == 0);
    CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
}

static void hide(const char *point)
{
    CHECK(umount2(point, MNT_DETACH) == 0);
}

static void make_read_only(const char *point)
{
    CHECK(mount(NULL, point, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) == 0);
}

void hide_mounts(const char *fstype)
{
    own_mounts();
    each_mount_point(fstype, hide);
}

void freeze_mounts(const char *fstype)
{
    own_mounts();
    each_mount_point(fstype, make_read_only);
}
