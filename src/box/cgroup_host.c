/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our own directory in each hierarchy, husk/<instance>, and what is left of dead instances.
 *
 * An instance is called <pid>-<start time>[-<pid namespace>][.<anything>]: a later launcher can
 * tell from the name alone whether the instance's launcher still lives, even if the pid was reused.
 * Must not touch a directory whose name is not of that form, or whose launcher it cannot see.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/parse.h"
#include "base/str.h"
#include "box/cgroup_impl.h"

struct instance {
    uint64_t pid;
    uint64_t start; /* ticks after boot */
    uint64_t ns;    /* inode of the pid namespace in which pid counts; 0: not said */
};

static bool parse_instance(const char *name, struct instance *ret)
{
    char text[CG_NAME_SIZE];
    uint64_t *const fields[] = {&ret->pid, &ret->start, &ret->ns};
    char *at = text;

    *ret = (struct instance){.pid = 0};
    if (!str_is_name(name) || str_copy(text, sizeof(text), name) < 0) {
        return false;
    }
    text[strcspn(text, ".")] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(fields) && at != NULL; i++) {
        char *end = strchr(at, '-');
        if (end != NULL) {
            *end++ = '\0';
        }
        if (parse_u64(at, fields[i]) < 0) {
            return false;
        }
        at = end;
    }
    return at == NULL && ret->pid > 0 && ret->pid <= INT32_MAX && ret->start > 0;
}

/* State letter and start time from /proc/<pid>/stat. 0 or -errno. */
static int read_start(uint64_t pid, char *ret_state, uint64_t *ret_start)
{
    char path[48];
    char text[1024];

    int r = str_format(path, sizeof(path), "/proc/%" PRIu64 "/stat", pid);
    ssize_t n = r < 0 ? r : fd_read_file(AT_FDCWD, path, text, sizeof(text));
    if (n < 0) {
        return (int)n;
    }
    /* The name in brackets may hold anything, so count from its end: state is field 3. */
    const char *at = strrchr(text, ')');
    for (int field = 2; at != NULL && field < 22; field++) {
        at = strchr(at, ' ');
        at = at != NULL ? at + 1 : NULL;
        if (field == 2 && at != NULL) {
            *ret_state = *at;
        }
    }
    if (at == NULL) {
        return -EINVAL;
    }
    *ret_start = cg_number_at(at);
    return 0;
}

static uint64_t own_pid_ns(void)
{
    struct stat st;

    return stat("/proc/self/ns/pid", &st) < 0 ? 0 : st.st_ino;
}

int cgroup_self_name(char *dst, size_t size)
{
    uint64_t start;
    char state;

    int r = read_start((uint64_t)getpid(), &state, &start);
    if (r < 0) {
        return r;
    }
    return str_format(dst, size, "%d-%" PRIu64 "-%" PRIu64, (int)getpid(), start, own_pid_ns());
}

/* In doubt an instance lives: removing one kills everything that runs in it. */
static bool is_gone(const char *name)
{
    struct instance in;
    uint64_t start;
    char state;

    if (!parse_instance(name, &in) || (in.ns != 0 && in.ns != own_pid_ns())) {
        return false;
    }
    if (kill((pid_t)in.pid, 0) < 0 && errno == ESRCH) {
        return true;
    }
    if (read_start(in.pid, &state, &start) < 0) {
        return false; /* hidden from us, or just gone: then the next sweep sees it */
    }
    /* A launcher that its parent has not reaped yet is dead all the same. */
    return start != in.start || state == 'Z' || state == 'X';
}

static int make_dir(int parent_fd, const char *name)
{
    return mkdirat(parent_fd, name, 0755) < 0 ? -errno : 0;
}

/* Drops resources from the tree that the kernel does not let us limit after all. */
static void check_needs(struct cg_tree *t, struct cgroup_facts *facts)
{
    const struct cg_ops *const *ops = t->unified ? cg_v2_ops : cg_v1_ops;

    for (int r = 0; r < CG_RESOURCES; r++) {
        if ((t->resources & CG_BIT(r)) == 0 || ops[r]->needs == NULL) {
            continue;
        }
        if (faccessat(t->dir_fd, ops[r]->needs, W_OK, AT_EACCESS) < 0) {
            cg_lack(facts, "no cgroup limit: %s: %s", ops[r]->needs, strerror(errno));
            t->resources &= ~CG_BIT(r);
        }
    }
}

/* Makes our directory in one hierarchy. 0 with t->dir_fd open, or -errno with nothing left. */
static int open_tree(struct cg_tree *t, const char *instance, struct cgroup_facts *facts)
{
    AUTO_CLOSE int parent = -1;

    int r = make_dir(t->base_fd, CG_PARENT);
    if (r < 0 && r != -EEXIST) {
        return r;
    }
    parent = cg_open_dir(t->base_fd, CG_PARENT);
    if (parent < 0) {
        return parent;
    }
    if (t->unified) {
        cg_v2_enable(t->base_fd, &t->resources, facts);
        cg_v2_enable(parent, &t->resources, facts);
    }

    r = make_dir(parent, instance);
    if (r < 0) {
        return r;
    }
    t->dir_fd = cg_open_dir(parent, instance);
    if (t->dir_fd < 0) {
        r = t->dir_fd;
        t->dir_fd = -1;
        unlinkat(parent, instance, AT_REMOVEDIR);
        return r;
    }
    if (t->unified) {
        cg_v2_enable(t->dir_fd, &t->resources, facts);
    }
    check_needs(t, facts);
    return 0;
}

/* Forgets the hierarchies in which we have made nothing. */
static void keep_opened(struct cg_trees *trees)
{
    size_t kept = 0;

    for (size_t i = 0; i < trees->n; i++) {
        if (trees->tree[i].dir_fd >= 0) {
            trees->tree[kept++] = trees->tree[i];
        } else {
            fd_close(&trees->tree[i].base_fd);
        }
    }
    trees->n = kept;
}

int cgroup_host_open(const char *instance, bool need_limits, struct cgroup_host **ret,
                     struct err *e)
{
    struct instance parsed;
    int r = 0;

    if (!parse_instance(instance, &parsed)) {
        return err_set(e, ERR_INVALID, "cgroup instance must be named <pid>-<start time>");
    }
    struct cgroup_host *host = calloc(1, sizeof(*host));
    if (host == NULL || str_copy(host->instance, sizeof(host->instance), instance) < 0) {
        free(host);
        return err_sys(e, ENOMEM, "open cgroups");
    }
    cg_find(&host->trees, &host->facts);
    for (size_t i = 0; i < host->trees.n && r != -EEXIST; i++) {
        r = open_tree(&host->trees.tree[i], instance, &host->facts);
        if (r < 0) {
            cg_lack(&host->facts, "cannot make a cgroup for husk: %s", strerror(-r));
        }
    }
    keep_opened(&host->trees);
    cg_facts_update(&host->facts, &host->trees);

    const struct cgroup_facts *f = &host->facts;
    if (r == -EEXIST) {
        err_set(e, ERR_EXISTS, "cgroup instance %s exists already", instance);
    } else if (need_limits && !(f->memory && f->cpu && f->pids)) {
        err_set(e, ERR_ISOLATION, "boxes cannot be limited: %s", f->why_not);
    } else {
        *ret = host;
        return 0;
    }
    cgroup_host_close(host);
    return -1;
}

bool cgroup_host_is_ours(const struct cgroup_host *host)
{
    struct stat st;

    for (size_t i = 0; i < host->trees.n; i++) {
        if (fstat(host->trees.tree[i].base_fd, &st) < 0 || st.st_uid != geteuid()) {
            return false;
        }
    }
    return true;
}

const struct cgroup_facts *cgroup_host_facts(const struct cgroup_host *host)
{
    return &host->facts;
}

void cgroup_host_close(struct cgroup_host *host)
{
    if (host == NULL) {
        return;
    }
    cg_remove(&host->trees, host->instance); /* a later sweep removes the rest */
    cg_trees_release(&host->trees);
    free(host);
}

void cgroup_probe(struct cgroup_facts *ret)
{
    struct cg_trees trees;

    cg_find(&trees, ret);
    cg_trees_release(&trees);
}

void cgroup_make_room(void)
{
    struct cgroup_facts facts;
    struct cg_trees trees;

    cg_find(&trees, &facts);
    if (trees.n > 0 && trees.tree[0].unified) {
        cg_v2_enable(trees.tree[0].base_fd, &trees.tree[0].resources, &facts);
    }
    cg_trees_release(&trees);
}

struct sweep {
    const struct cg_trees *trees;
    size_t removed;
};

static int sweep_one(int dir_fd, const char *name, void *arg)
{
    struct sweep *sweep = arg;

    if (is_gone(name) && cg_remove(sweep->trees, name) == 0) {
        sweep->removed++;
    }
    return 0;
}

size_t cgroup_sweep(void)
{
    struct cgroup_facts facts;
    struct cg_trees trees;
    struct sweep sweep = {.trees = &trees};

    cg_find(&trees, &facts);
    for (size_t i = 0; i < trees.n; i++) {
        int parent = cg_open_dir(trees.tree[i].base_fd, CG_PARENT);
        if (parent >= 0) {
            cg_each_dir(parent, sweep_one, &sweep);
            fd_close(&parent);
        }
    }
    cg_trees_release(&trees);
    return sweep.removed;
}

static void add_usage(const struct cg_tree *t, enum cg_resource r, struct cgroup_usage *ret)
{
    struct cg_part part = {.ops = t->unified ? cg_v2_ops[r] : cg_v1_ops[r], .dir_fd = t->dir_fd};

    for (size_t i = 0; i < CG_PART_FILES; i++) {
        part.fd[i] = -1;
        if (part.ops->files[i].name != NULL) {
            part.fd[i] = openat(t->dir_fd, part.ops->files[i].name, O_RDONLY | O_CLOEXEC);
        }
    }
    if (part.ops->usage != NULL) {
        part.ops->usage(&part, ret); /* a file that cannot be read counts as 0 */
    }
    for (size_t i = 0; i < CG_PART_FILES; i++) {
        fd_close(&part.fd[i]);
    }
}

void cgroup_host_usage(const struct cgroup_host *host, struct cgroup_usage *ret)
{
    struct cgroup_usage all = {.cpu_ns = 0};

    for (size_t i = 0; i < host->trees.n; i++) {
        for (int r = 0; r < CG_RESOURCES; r++) {
            if (host->trees.tree[i].dir_fd >= 0 &&
                (host->trees.tree[i].resources & CG_BIT(r)) != 0) {
                add_usage(&host->trees.tree[i], r, &all);
            }
        }
    }
    *ret = (struct cgroup_usage){
        .cpu_ns = all.cpu_ns, .memory_now = all.memory_now, .pids_now = all.pids_now};
}
