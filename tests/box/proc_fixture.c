/* SPDX-License-Identifier: Apache-2.0 */
/* Processes from outside; see proc_fixture.h. */
#include "proc_fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/fd.h"
#include "base/str.h"
#include "tap.h"

const char *proc_file(pid_t pid, const char *name)
{
    static char text[1 << 16];
    char path[128];

    CHECK_INT(str_format(path, sizeof(path), "/proc/%d/%s", pid, name), 0);
    ssize_t n = fd_read_file(AT_FDCWD, path, text, sizeof(text));
    if (n < 0) {
        text[0] = '\0'; /* gone */
    }
    return text;
}

void proc_children(pid_t pid, struct proc_list *ret)
{
    char name[64];
    char *end = NULL;

    ret->n = 0;
    CHECK_INT(str_format(name, sizeof(name), "task/%d/children", pid), 0);
    const char *p = proc_file(pid, name);
    for (long child = strtol(p, &end, 10); end != p; child = strtol(p, &end, 10)) {
        CHECK(ret->n < PROC_MAX);
        ret->pids[ret->n++] = (pid_t)child;
        p = end;
    }
}

void proc_tree(pid_t pid, struct proc_list *ret)
{
    static struct proc_list below;

    ret->pids[0] = pid;
    ret->n = 1;
    for (size_t i = 0; i < ret->n; i++) {
        proc_children(ret->pids[i], &below);
        for (size_t k = 0; k < below.n; k++) {
            CHECK(ret->n < PROC_MAX);
            ret->pids[ret->n++] = below.pids[k];
        }
    }
}

/* NULL: it is none of the launcher's bystanders. */
static bool has_name(const char *name, const char *comm)
{
    return comm != NULL ? str_eq(name, comm)
                        : !str_eq(name, "husk-guard") && !str_eq(name, "husk-closer");
}

static pid_t only_child(pid_t parent, const char *comm)
{
    static struct proc_list children;
    char name[32];
    pid_t found = 0;

    proc_children(parent, &children);
    for (size_t i = 0; i < children.n; i++) {
        proc_status(children.pids[i], "Name", name, sizeof(name));
        if (has_name(name, comm)) {
            CHECK_INT(found, 0);
            found = children.pids[i];
        }
    }
    CHECK(found > 0);
    return found;
}

pid_t proc_launcher(void)
{
    return only_child(getpid(), "husk-launcher");
}

pid_t proc_guard(pid_t launcher)
{
    return only_child(launcher, "husk-guard");
}

pid_t proc_closer(pid_t launcher)
{
    return only_child(launcher, "husk-closer");
}

pid_t proc_zygote(pid_t launcher)
{
    return only_child(launcher, NULL);
}

void proc_zygotes(pid_t launcher, struct proc_list *ret)
{
    static struct proc_list children;
    char name[32];

    ret->n = 0;
    proc_children(launcher, &children);
    for (size_t i = 0; i < children.n; i++) {
        proc_status(children.pids[i], "Name", name, sizeof(name));
        if (has_name(name, NULL)) {
            ret->pids[ret->n++] = children.pids[i];
        }
    }
}

void proc_status(pid_t pid, const char *key, char *ret, size_t size)
{
    char start[32];

    CHECK_INT(str_format(start, sizeof(start), "\n%s:\t", key), 0);
    const char *text = proc_file(pid, "status");
    const char *at = str_starts(text, start + 1) ? text - 1 : strstr(text, start);
    if (at == NULL) {
        CHECK_INT(str_copy(ret, size, ""), 0);
        return;
    }
    at += strlen(start);
    CHECK_INT(str_format(ret, size, "%.*s", (int)strcspn(at, "\n"), at), 0);
}

void proc_link(pid_t pid, const char *name, char *ret, size_t size)
{
    char path[128];

    CHECK_INT(str_format(path, sizeof(path), "/proc/%d/%s", pid, name), 0);
    ssize_t n = readlink(path, ret, size - 1);
    CHECK(n > 0);
    ret[n] = '\0';
}

size_t proc_count_fds(pid_t pid)
{
    char path[64];
    size_t n = 0;

    CHECK_INT(str_format(path, sizeof(path), "/proc/%d/fd", pid), 0);
    DIR *dir = opendir(path);
    CHECK(dir != NULL);
    for (struct dirent *d = readdir(dir); d != NULL; d = readdir(dir)) {
        n += d->d_name[0] != '.';
    }
    closedir(dir);
    return pid == getpid() ? n - 1 : n; /* without the directory itself */
}

size_t proc_count_lines(pid_t pid, const char *name)
{
    size_t n = 0;

    for (const char *p = strchr(proc_file(pid, name), '\n'); p != NULL; p = strchr(p + 1, '\n')) {
        n++;
    }
    return n;
}

bool proc_is_alive(pid_t pid)
{
    char state[32];

    proc_status(pid, "State", state, sizeof(state));
    return state[0] != '\0' && state[0] != 'Z' && state[0] != 'X';
}

void proc_wait_gone(const struct proc_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        CASE("process %d of %zu lives on", list->pids[i], list->n);
        AWAIT(!proc_is_alive(list->pids[i]));
    }
}

void proc_kill(pid_t pid)
{
    const struct proc_list one = {.pids = {pid}, .n = 1};

    CHECK_INT(kill(pid, SIGKILL), 0);
    proc_wait_gone(&one);
}

size_t proc_count_cgroups(pid_t launcher)
{
    static const char *const places[] = {"/sys/fs/cgroup/husk", "/sys/fs/cgroup/*/husk"};
    static const char *const depths[] = {"", "/*/"};
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_LEN(places) * ARRAY_LEN(depths); i++) {
        char pattern[PATH_MAX];
        glob_t found;
        CHECK_INT(str_format(pattern, sizeof(pattern), "%s/%d-*%s", places[i % 2], launcher,
                             depths[i / 2]),
                  0);
        if (glob(pattern, GLOB_ONLYDIR, NULL, &found) == 0) {
            n += found.gl_pathc;
            globfree(&found);
        }
    }
    return n;
}

void proc_wait_no_cgroups(pid_t launcher)
{
    AWAIT(proc_count_cgroups(launcher) == 0);
}
