/* SPDX-License-Identifier: Apache-2.0 */
/* Readings of /proc; see host.h. */
#include "host.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"

#define FILE_SIZE 65536
#define PROCESSES_MAX 65536

/* "Name:   123 kB" somewhere in a file like /proc/meminfo; 0 when it is not there. */
static double find_kb(const char *text, const char *name)
{
    const char *at = strstr(text, name);

    return at != NULL ? strtod(at + strlen(name), NULL) : 0;
}

static double read_kb(pid_t pid, const char *file, const char *name)
{
    char path[64];
    char text[8192];

    (void)str_format(path, sizeof(path), "/proc/%d/%s", pid, file);
    return fd_read_file(AT_FDCWD, path, text, sizeof(text)) < 0 ? 0 : find_kb(text, name);
}

int host_memory(struct host_memory *ret, struct err *e)
{
    char text[8192];
    ssize_t n = fd_read_file(AT_FDCWD, "/proc/meminfo", text, sizeof(text));

    if (n < 0) {
        return err_sys(e, (int)-n, "read /proc/meminfo");
    }
    *ret = (struct host_memory){
        .reclaimable = find_kb(text, "\nSReclaimable:"),
        .unreclaimable = find_kb(text, "\nSUnreclaim:"),
        .page_tables = find_kb(text, "\nPageTables:"),
        .kernel_stack = find_kb(text, "\nKernelStack:"),
        .percpu = find_kb(text, "\nPercpu:"),
    };
    return 0;
}

double host_private_dirty(pid_t pid)
{
    return read_kb(pid, "smaps_rollup", "\nPrivate_Dirty:");
}

double host_rss(pid_t pid)
{
    return read_kb(pid, "status", "\nVmRSS:");
}

/*
 * Words 14 and 15 of stat are user and system time; the name in brackets is the second and may hold
 * anything.
 */
double host_cpu_ms(pid_t pid)
{
    char path[64];
    char text[1024];
    unsigned long user = 0;
    unsigned long kernel = 0;

    (void)str_format(path, sizeof(path), "/proc/%d/stat", pid);
    const char *end =
        fd_read_file(AT_FDCWD, path, text, sizeof(text)) < 0 ? NULL : strrchr(text, ')');
    if (end == NULL ||
        sscanf(end, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel) != 2) {
        return 0;
    }
    return (double)(user + kernel) * 1000.0 / (double)sysconf(_SC_CLK_TCK);
}

/* The parent is the second word after the name in brackets. */
static pid_t parent_of(pid_t pid)
{
    char path[64];
    char text[1024];
    int parent = 0;

    (void)str_format(path, sizeof(path), "/proc/%d/stat", pid);
    if (fd_read_file(AT_FDCWD, path, text, sizeof(text)) < 0) {
        return 0;
    }
    const char *end = strrchr(text, ')');
    return end != NULL && sscanf(end, ") %*c %d", &parent) == 1 ? parent : 0;
}

struct process {
    pid_t pid;
    pid_t parent;
};

static size_t list_processes(struct process *all, size_t max)
{
    size_t n = 0;
    DIR *proc = opendir("/proc");

    for (struct dirent *d = proc != NULL ? readdir(proc) : NULL; d != NULL && n < max;
         d = readdir(proc)) {
        if (isdigit((unsigned char)d->d_name[0])) {
            pid_t pid = (pid_t)strtol(d->d_name, NULL, 10);
            all[n++] = (struct process){pid, parent_of(pid)};
        }
    }
    if (proc != NULL) {
        closedir(proc);
    }
    return n;
}

static void add_children(const struct process *all, size_t n, pid_t of, int generation,
                         struct host_family *ret)
{
    for (size_t i = 0; i < n; i++) {
        if (all[i].parent == of && ret->n < HOST_FAMILY_MAX) {
            ret->members[ret->n].pid = all[i].pid;
            ret->members[ret->n++].generation = generation;
        }
    }
}

int host_family(pid_t root, struct host_family *ret, struct err *e)
{
    AUTO_FREE struct process *all = calloc(PROCESSES_MAX, sizeof(*all));

    if (all == NULL) {
        return err_sys(e, ENOMEM, "list processes");
    }
    size_t n = list_processes(all, PROCESSES_MAX);
    ret->n = 0;
    add_children(all, n, root, 1, ret);
    for (size_t i = 0; i < ret->n; i++) { /* grows while it is walked */
        add_children(all, n, ret->members[i].pid, ret->members[i].generation + 1, ret);
    }
    return 0;
}

size_t host_descriptors(pid_t pid, size_t *ret_netns)
{
    char path[64];
    char target[128];
    size_t n = 0;

    (void)str_format(path, sizeof(path), "/proc/%d/fd", pid);
    DIR *dir = opendir(path);
    for (struct dirent *d = dir != NULL ? readdir(dir) : NULL; d != NULL; d = readdir(dir)) {
        ssize_t len = readlinkat(dirfd(dir), d->d_name, target, sizeof(target) - 1);
        if (len > 0) {
            target[len] = '\0';
            n++;
            if (ret_netns != NULL && str_starts(target, "net:[")) {
                (*ret_netns)++;
            }
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return n;
}

size_t host_mounts(pid_t pid)
{
    AUTO_FREE char *text = malloc(FILE_SIZE);
    char path[64];
    size_t lines = 0;

    (void)str_format(path, sizeof(path), "/proc/%d/mountinfo", pid);
    if (text == NULL || fd_read_file(AT_FDCWD, path, text, FILE_SIZE) < 0) {
        return 0;
    }
    for (const char *p = strchr(text, '\n'); p != NULL; p = strchr(p + 1, '\n')) {
        lines++;
    }
    return lines;
}

/* nftw() has no argument to hand through. */
static struct {
    char mark[32];
    size_t n;
} cgroup_walk;

static int count_cgroup(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)ftw;
    cgroup_walk.n += type == FTW_D && strstr(path, cgroup_walk.mark) != NULL;
    return 0;
}

size_t host_cgroups(pid_t launcher)
{
    /* A launcher's directories lie below husk/PID-STARTTIME in each hierarchy. */
    (void)str_format(cgroup_walk.mark, sizeof(cgroup_walk.mark), "/husk/%d-", launcher);
    cgroup_walk.n = 0;
    (void)nftw("/sys/fs/cgroup", count_cgroup, 32, FTW_PHYS);
    return cgroup_walk.n;
}
