/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One box's cgroup: its directories in every hierarchy, limits, counters, killing, reuse.
 *
 * How it works: cgroup_new() makes the directories and opens what later calls need, so that
 * limiting, reading and recycling a box are a handful of reads and writes on held descriptors.
 * Counters that the kernel does not let us reset are read once per recycling and subtracted.
 *
 * Must not follow a path that a box can influence: boxes cannot write here at all, and every file
 * is opened from the directory that we made.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "box/cgroup_impl.h"

static struct cgroup *alloc(const struct cgroup_host *host)
{
    struct cgroup *cg = calloc(1, sizeof(*cg));

    if (cg == NULL) {
        return NULL;
    }
    cg->host = host;
    cg->events = -1;
    cg->kill = -1;
    for (size_t i = 0; i < CGROUP_PROCS_MAX; i++) {
        cg->dirs[i] = -1;
        cg->procs[i] = -1;
    }
    for (size_t r = 0; r < CG_RESOURCES; r++) {
        for (size_t i = 0; i < CG_PART_FILES; i++) {
            cg->parts[r].fd[i] = -1;
        }
    }
    return cg;
}

static void close_all(struct cgroup *cg)
{
    for (size_t i = 0; i < CGROUP_PROCS_MAX; i++) {
        fd_close(&cg->dirs[i]);
        fd_close(&cg->procs[i]);
    }
    for (size_t r = 0; r < CG_RESOURCES; r++) {
        for (size_t i = 0; i < CG_PART_FILES; i++) {
            fd_close(&cg->parts[r].fd[i]);
        }
    }
    fd_close(&cg->events);
    fd_close(&cg->kill);
}

static int open_part(struct cgroup *cg, size_t tree, enum cg_resource r, struct err *e)
{
    struct cg_part *p = &cg->parts[r];
    const struct cg_ops *ops = cg->host->trees.tree[tree].unified ? cg_v2_ops[r] : cg_v1_ops[r];

    p->ops = ops;
    p->dir_fd = cg->dirs[tree];
    for (size_t i = 0; i < CG_PART_FILES && ops->files[i].name != NULL; i++) {
        int n = cg_open_file(p->dir_fd, &ops->files[i], &p->fd[i]);
        if (n < 0) {
            return err_sys(e, -n, "open %s of box %s", ops->files[i].name, cg->name);
        }
    }
    int n = ops->prepare != NULL ? ops->prepare(p) : 0;
    return n < 0 ? err_sys(e, -n, "prepare the cgroup of box %s", cg->name) : 0;
}

static int open_twin(struct cgroup *cg, int dir_fd)
{
    static const struct cg_file events = {.name = "cgroup.events"};

    /* It cannot be read, and is missing before 5.14. */
    cg->kill = openat(dir_fd, "cgroup.kill", O_WRONLY | O_CLOEXEC);
    if (cg->kill < 0 && errno != ENOENT) {
        return -errno;
    }
    return cg_open_file(dir_fd, &events, &cg->events);
}

static int open_dirs(struct cgroup *cg, size_t i, struct err *e)
{
    const struct cg_tree *t = &cg->host->trees.tree[i];

    if (mkdirat(t->dir_fd, cg->name, 0755) < 0) {
        return errno == EEXIST ? err_set(e, ERR_EXISTS, "cgroup %s exists already", cg->name)
                               : err_sys(e, errno, "make cgroup %s", cg->name);
    }
    cg->made[i] = true;

    int r = cg_open_dir(t->dir_fd, cg->name);
    if (r >= 0) {
        cg->dirs[i] = r;
        r = cg_open_procs(r, t->unified, &cg->procs[i]);
    }
    if (r == 0 && t->unified) {
        r = open_twin(cg, cg->dirs[i]);
    }
    if (r < 0) {
        return err_sys(e, -r, "open cgroup %s", cg->name);
    }
    for (int res = 0; res < CG_RESOURCES; res++) {
        if ((t->resources & CG_BIT(res)) != 0 && open_part(cg, i, res, e) < 0) {
            return -1;
        }
    }
    return 0;
}

static int make(struct cgroup_host *host, const char *name, size_t first, struct cgroup **ret,
                struct err *e)
{
    if (!str_is_name(name)) {
        return err_set(e, ERR_INVALID, "a cgroup cannot have this name");
    }
    struct cgroup *cg = alloc(host);
    if (cg == NULL || str_copy(cg->name, sizeof(cg->name), name) < 0) {
        free(cg);
        return err_sys(e, ENOMEM, "make cgroup %s", name);
    }
    cg->first = first;
    for (size_t i = first; i < host->trees.n; i++) {
        if (open_dirs(cg, i, e) < 0) {
            cgroup_free(cg);
            return -1;
        }
    }
    *ret = cg;
    return 0;
}

int cgroup_new(struct cgroup_host *host, const char *name, struct cgroup **ret, struct err *e)
{
    return make(host, name, 0, ret, e);
}

int cgroup_new_box(struct cgroup_host *host, const char *name, struct cgroup **ret, struct err *e)
{
    const struct cg_tree *t = &host->trees.tree[0];
    bool is_twin = host->trees.n > 1 && t->unified && (t->resources & ~CG_BIT(CG_CPUACCT)) == 0;

    return make(host, name, is_twin ? 1 : 0, ret, e);
}

/* True when all our directories are gone. The unified one goes last: cgroup.kill is in it. */
static bool remove_dirs(struct cgroup *cg)
{
    for (size_t i = cg->host->trees.n; i-- > 0;) {
        if (!cg->made[i]) {
            continue;
        }
        if (unlinkat(cg->host->trees.tree[i].dir_fd, cg->name, AT_REMOVEDIR) < 0 &&
            errno != ENOENT) {
            return false;
        }
        cg->made[i] = false;
    }
    return true;
}

static void kill_members(const struct cgroup *cg)
{
    for (size_t i = 0; i < CGROUP_PROCS_MAX; i++) {
        if (cg->made[i] && cg->dirs[i] >= 0) {
            cg_kill_members(cg->dirs[i]);
        }
    }
}

static int remove_child(int dir_fd, const char *name, void *arg)
{
    (void)arg;
    (void)unlinkat(dir_fd, name, AT_REMOVEDIR);
    return 0;
}

/* A program outside a box may have made cgroups below its own: husk in `husk limited` does. */
static void remove_children(const struct cgroup *cg)
{
    for (size_t i = 0; i < CGROUP_PROCS_MAX; i++) {
        if (cg->made[i] && cg->dirs[i] >= 0) {
            cg_each_dir(cg->dirs[i], remove_child, NULL);
        }
    }
}

void cgroup_free(struct cgroup *cg)
{
    if (cg == NULL) {
        return;
    }
    uint64_t deadline = clock_ms() + CG_REMOVE_MS;
    while (!remove_dirs(cg) && clock_ms() < deadline) {
        cgroup_kill(cg);
        /* A process that joined out of order is in a v1 tree but not in the twin. */
        kill_members(cg);
        remove_children(cg);
        cg_wait(cgroup_is_empty(cg) ? -1 : cg->events);
    }
    /* What is left now hangs in the kernel; cgroup_host_close() or a sweep removes it later. */
    close_all(cg);
    free(cg);
}

int cgroup_set_limits(struct cgroup *cg, const struct limits *l, struct err *e)
{
    if (limits_check(l, e) < 0) {
        return -1;
    }
    const bool same[CG_RESOURCES] = {
        [CG_MEMORY] = cg->set.memory_bytes == l->memory_bytes,
        [CG_CPU] = cg->set.cpu_milli == l->cpu_milli,
        [CG_PIDS] = cg->set.pids == l->pids,
    };

    for (int i = 0; i < CG_RESOURCES; i++) {
        const struct cg_part *p = &cg->parts[i];
        if (p->ops == NULL || p->ops->limit == NULL || same[i]) {
            continue;
        }
        int r = p->ops->limit(p, l);
        if (r < 0) {
            cg->set = (struct limits){.memory_bytes = 0}; /* next time write all */
            return err_sys(e, -r, "write %s of box %s", p->ops->needs, cg->name);
        }
    }
    cg->set = *l;
    return 0;
}

int cgroup_set_oom(struct cgroup *cg, bool takes_one, struct err *e)
{
    const struct cg_part *p = &cg->parts[CG_MEMORY];

    if (cg->oom_takes_one == takes_one || p->ops == NULL || p->ops->oom == NULL) {
        return 0;
    }
    int r = p->ops->oom(p, takes_one);
    if (r < 0) {
        return err_sys(e, -r, "write memory.oom.group of box %s", cg->name);
    }
    cg->oom_takes_one = takes_one;
    return 0;
}

size_t cgroup_procs_fds(const struct cgroup *cg, int fds[CGROUP_PROCS_MAX])
{
    size_t n = 0;

    for (size_t i = cg->first; i < cg->host->trees.n; i++) {
        fds[n++] = cg->procs[i];
    }
    return n;
}

size_t cgroup_memory_procs_fds(const struct cgroup *cg, int fds[CGROUP_PROCS_MAX])
{
    size_t n = 0;

    for (size_t i = cg->first; i < cg->host->trees.n; i++) {
        const struct cg_tree *t = &cg->host->trees.tree[i];
        if (t->unified || (t->resources & CG_BIT(CG_MEMORY)) != 0) {
            fds[n++] = cg->procs[i];
        }
    }
    return n;
}

static void read_raw(const struct cgroup *cg, struct cgroup_usage *ret)
{
    *ret = (struct cgroup_usage){.cpu_ns = 0};
    for (size_t r = 0; r < CG_RESOURCES; r++) {
        const struct cg_part *p = &cg->parts[r];
        if (p->ops != NULL && p->ops->usage != NULL) {
            p->ops->usage(p, ret);
        }
    }
}

static uint64_t since(uint64_t now, uint64_t base)
{
    return now > base ? now - base : 0;
}

uint64_t cgroup_oom_kills(const struct cgroup *cg)
{
    const struct cg_part *p = &cg->parts[CG_MEMORY];
    struct cgroup_usage u = {.oom_kills = 0};

    if (p->ops != NULL) {
        p->ops->usage(p, &u);
    }
    return since(u.oom_kills, cg->base.oom_kills);
}

bool cgroup_oom_needs_watch(const struct cgroup_host *host)
{
    for (size_t i = 0; i < host->trees.n; i++) {
        if ((host->trees.tree[i].resources & CG_BIT(CG_MEMORY)) != 0) {
            return !host->trees.tree[i].unified;
        }
    }
    return false;
}

void cgroup_usage(const struct cgroup *cg, struct cgroup_usage *ret)
{
    const struct cgroup_usage *base = &cg->base;

    read_raw(cg, ret);
    ret->cpu_ns = since(ret->cpu_ns, base->cpu_ns);
    ret->oom_kills = since(ret->oom_kills, base->oom_kills);
    ret->pids_refused = since(ret->pids_refused, base->pids_refused);
    ret->io_read = since(ret->io_read, base->io_read);
    ret->io_write = since(ret->io_write, base->io_write);
}

/*
 * In doubt, populated: an empty cgroup that is thought to be in use is only not reused. A twin
 * answers for all trees, since it is joined first.
 */
bool cgroup_is_empty(const struct cgroup *cg)
{
    char text[64];

    if (cg->events >= 0) {
        ssize_t n = pread(cg->events, text, sizeof(text) - 1, 0);
        text[n > 0 ? n : 0] = '\0';
        return str_starts(text, "populated 0");
    }
    for (size_t i = cg->first; i < cg->host->trees.n; i++) {
        if (cg_has_members(cg->dirs[i])) {
            return false;
        }
    }
    return true;
}

uint64_t cgroup_processes(const struct cgroup *cg)
{
    return cg_read_u64(cg->parts[CG_PIDS].fd[0]); /* pids.current */
}

/*
 * Without cgroup.kill (v1, and v2 before 5.14): while nothing in it can fork, the cgroup only
 * shrinks, and signalling all its members again and again empties it.
 */
static int kill_by_pid(const struct cgroup *cg)
{
    const struct cg_part *pids = &cg->parts[CG_PIDS];
    uint64_t deadline = clock_ms() + CG_REMOVE_MS;
    int r = 0;

    if (pids->ops != NULL) {
        r = fd_write_file(pids->dir_fd, "pids.max", "0");
    }
    while (r == 0 && !cgroup_is_empty(cg)) {
        kill_members(cg);
        cg_wait(cg->events);
        if (clock_ms() > deadline) {
            r = -EBUSY;
        }
    }
    if (pids->ops != NULL) {
        int w = cg->set.pids != 0 ? cg_write_u64(pids->dir_fd, "pids.max", cg->set.pids)
                                  : fd_write_file(pids->dir_fd, "pids.max", "max");
        r = r < 0 ? r : w;
    }
    return r;
}

int cgroup_kill(struct cgroup *cg)
{
    return cg->kill >= 0 ? cg_rewrite(cg->kill, "1") : kill_by_pid(cg);
}

int cgroup_recycle(struct cgroup *cg)
{
    /* The next box would not join a twin that this one got later (cgroup_prepare_freeze()). */
    bool has_twin = cg->first > 0 && cg->made[0];

    if (has_twin || (cg->is_frozen && cgroup_freeze(cg, false) < 0)) {
        return -EBUSY;
    }
    /* Where processes are counted, the reset below looks at the count: far cheaper than a list. */
    if (cg->parts[CG_PIDS].ops == NULL && !cgroup_is_empty(cg)) {
        return -EBUSY;
    }
    for (size_t r = 0; r < CG_RESOURCES; r++) {
        const struct cg_part *p = &cg->parts[r];
        int n = p->ops != NULL && p->ops->reset != NULL ? p->ops->reset(p) : 0;
        if (n < 0) {
            return n;
        }
    }
    read_raw(cg, &cg->base);
    return 0;
}
