/* SPDX-License-Identifier: Apache-2.0 */
/* CPU time by cgroup; see cpu.h. */
#include "cpu.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "host.h"

#define REMOVE_TRIES 200

/* Where the unified tree is mounted; hybrid hosts have it in a folder of its own. */
static const char *tree(void)
{
    static const char *const places[] = {"/sys/fs/cgroup/unified", "/sys/fs/cgroup"};

    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        char path[64];
        (void)str_format(path, sizeof(path), "%s/cgroup.procs", places[i]);
        if (access(path, F_OK) == 0) {
            return places[i];
        }
    }
    return NULL;
}

static int own_dir(int pid, char *ret, size_t size)
{
    const char *root = tree();

    return root == NULL ? -ENOENT : str_format(ret, size, "%s/husk-bench-%d", root, pid);
}

int cpu_join(struct err *e)
{
    char dir[128];
    char procs[160];
    int r = own_dir(getpid(), dir, sizeof(dir));

    if (r < 0 || (mkdir(dir, 0755) < 0 && errno != EEXIST)) {
        return err_sys(e, r < 0 ? -r : errno, "make a cgroup in the unified tree");
    }
    (void)str_format(procs, sizeof(procs), "%s/cgroup.procs", dir);
    r = fd_write_file(AT_FDCWD, procs, "0");
    return r < 0 ? err_sys(e, -r, "join %s", dir) : 0;
}

void cpu_remove(int pid)
{
    const struct timespec pause = {.tv_nsec = 10000000};
    char dir[128];

    if (own_dir(pid, dir, sizeof(dir)) < 0) {
        return;
    }
    /* A launcher's guard outlives it by a moment. */
    for (int tries = 0; rmdir(dir) < 0 && errno == EBUSY && tries < REMOVE_TRIES; tries++) {
        nanosleep(&pause, NULL);
    }
}

static int read_usage(const char *dir, double *ret, struct err *e)
{
    char path[PATH_MAX];
    char text[4096];

    if (str_format(path, sizeof(path), "%s/cpu.stat", dir) < 0) {
        return err_set(e, ERR_SYSTEM, "a cgroup's path is too long");
    }
    ssize_t n = fd_read_file(AT_FDCWD, path, text, sizeof(text));
    const char *value = n > 0 ? strstr(text, "usage_usec ") : NULL;
    if (value == NULL) {
        return err_sys(e, n < 0 ? (int)-n : ENODATA, "read %s", path);
    }
    *ret += strtod(value + strlen("usage_usec "), NULL) / 1e3;
    return 0;
}

/*
 * The folder around a process's cgroup, when that is not ours: a launcher's, with all its boxes
 * past and present.
 */
static bool foreign_parent(pid_t pid, const char *own, char *ret, size_t size)
{
    char path[64];
    char text[4096];

    (void)str_format(path, sizeof(path), "/proc/%d/cgroup", pid);
    const char *line =
        fd_read_file(AT_FDCWD, path, text, sizeof(text)) > 0 ? strstr(text, "0::/") : NULL;
    if (line == NULL) {
        return false;
    }
    text[strcspn(line, "\n") + (size_t)(line - text)] = '\0';
    if (str_format(ret, size, "%s%s", tree(), line + 3) < 0 || str_eq(ret, own)) {
        return false;
    }
    *strrchr(ret, '/') = '\0';
    return true;
}

int cpu_read(double *ret, struct err *e)
{
    static struct host_family family;
    char own[128];
    char dir[PATH_MAX];
    char last[PATH_MAX] = "";

    *ret = 0;
    if (own_dir(getpid(), own, sizeof(own)) < 0 || read_usage(own, ret, e) < 0 ||
        host_family(getpid(), &family, e) < 0) {
        return -1;
    }
    for (size_t i = 0; i < family.n; i++) {
        if (!foreign_parent(family.members[i].pid, own, dir, sizeof(dir)) || str_eq(dir, last)) {
            continue; /* one launcher, so one folder */
        }
        if (read_usage(dir, ret, e) < 0) {
            return -1;
        }
        (void)str_copy(last, sizeof(last), dir);
    }
    return 0;
}
