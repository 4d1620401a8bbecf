/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cgroup v2: turning controllers on, and each resource's files.
 *
 * Must not move any process but our own, and not change a cgroup that we did not make beyond
 * enabling controllers for its children.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "box/cgroup_impl.h"

static const char *const names[CG_RESOURCES] = {
    [CG_MEMORY] = "memory",
    [CG_CPU] = "cpu",
    [CG_PIDS] = "pids",
    [CG_IO] = "io",
};

/* The resources named in cgroup.controllers or cgroup.subtree_control. */
static unsigned read_controllers(int dir_fd, const char *file)
{
    char text[1024];
    unsigned found = 0;

    if (fd_read_file(dir_fd, file, text, sizeof(text)) < 0) {
        return 0;
    }
    for (int r = 0; r < CG_RESOURCES; r++) {
        if (names[r] != NULL && cg_list_has(text, names[r])) {
            found |= CG_BIT(r);
        }
    }
    return found;
}

/*
 * Processes of others in the cgroup itself. Only the root of all may have some and controllers too.
 */
static bool has_strangers(int dir_fd)
{
    char first[64];
    char self[32];

    if (faccessat(dir_fd, "cgroup.type", F_OK, 0) < 0) {
        return false; /* the root of all: it alone has no type */
    }
    ssize_t n = fd_read_file(dir_fd, "cgroup.procs", first, sizeof(first));
    if (n <= 0 || str_format(self, sizeof(self), "%d\n", (int)getpid()) < 0) {
        return n != 0; /* too long for one pid: others are there */
    }
    return !str_eq(first, self);
}

unsigned cg_v2_offers(int base_fd, struct cgroup_facts *facts)
{
    unsigned there = read_controllers(base_fd, "cgroup.controllers");
    unsigned on = there & read_controllers(base_fd, "cgroup.subtree_control");

    if (on == there) {
        return there;
    }
    if (faccessat(base_fd, "cgroup.subtree_control", W_OK, AT_EACCESS) < 0) {
        cg_lack(facts, "cannot enable cgroup controllers: cgroup.subtree_control: %s",
                strerror(errno));
        return on;
    }
    if (has_strangers(base_fd)) {
        cg_lack(facts, "cannot enable cgroup controllers: other processes live in our cgroup; "
                       "start husk in a cgroup of its own");
        return on;
    }
    return there;
}

/* Empties dir, which may not have processes and controllers for children at the same time. */
static int move_self_below(int dir_fd)
{
    AUTO_CLOSE int leaf = -1;

    if (mkdirat(dir_fd, CG_SELF, 0755) < 0 && errno != EEXIST) {
        return -errno;
    }
    leaf = cg_open_dir(dir_fd, CG_SELF);
    return leaf < 0 ? leaf : fd_write_file(leaf, "cgroup.procs", "0");
}

void cg_v2_enable(int dir_fd, unsigned *resources, struct cgroup_facts *facts)
{
    unsigned on = read_controllers(dir_fd, "cgroup.subtree_control");
    char text[32];

    for (int i = 0; i < CG_RESOURCES; i++) {
        if (names[i] == NULL || (*resources & CG_BIT(i)) == 0 || (on & CG_BIT(i)) != 0) {
            continue;
        }
        int r = str_format(text, sizeof(text), "+%s", names[i]);
        r = r < 0 ? r : fd_write_file(dir_fd, "cgroup.subtree_control", text);
        if (r == -EBUSY && move_self_below(dir_fd) == 0) {
            r = fd_write_file(dir_fd, "cgroup.subtree_control", text);
        }
        if (r < 0) {
            *resources &= ~CG_BIT(i);
        }
        if (r < 0 && i != CG_IO) {
            cg_lack(facts, "cannot enable the %s cgroup controller: %s", names[i], strerror(-r));
        }
    }
}

/* ---- memory ---- */

enum { MEM_CURRENT, MEM_PEAK = CG_MEMORY_PEAK, MEM_EVENTS, MEM_OWN_PEAK };

static int memory_oom(const struct cg_part *p, bool takes_one)
{
    return fd_write_file(p->dir_fd, "memory.oom.group", takes_one ? "0" : "1");
}

static int memory_prepare(const struct cg_part *p)
{
    /* A box is one program: killing a part of it leaves the rest in an untested state. */
    return memory_oom(p, false);
}

static int memory_limit(const struct cg_part *p, const struct limits *l)
{
    int r = fd_write_file(p->dir_fd, "memory.swap.max", "0");

    /* The file is missing where the kernel has no swap at all, which also has no /proc/swaps. */
    if (r == -ENOENT && access("/proc/swaps", F_OK) < 0) {
        r = 0;
    }
    return r < 0 ? r : cg_write_u64(p->dir_fd, "memory.max", l->memory_bytes);
}

static void memory_usage(const struct cg_part *p, struct cgroup_usage *ret)
{
    ret->memory_now = cg_read_u64(p->fd[MEM_CURRENT]);
    /* A reader elsewhere has the one that was given to it, and not ours. */
    ret->memory_peak = cg_read_u64(p->fd[p->fd[MEM_OWN_PEAK] >= 0 ? MEM_OWN_PEAK : MEM_PEAK]);
    ret->oom_kills = cg_read_key(p->fd[MEM_EVENTS], "oom_kill");
}

static int memory_reset(const struct cg_part *p)
{
    uint64_t residue = cg_read_u64(p->fd[MEM_CURRENT]);

    if (residue > CG_RESIDUE_MAX) {
        /* Since 5.19. Fails when it gets less than asked; what counts is what is left. */
        cg_write_u64(p->dir_fd, "memory.reclaim", residue);
        if (cg_read_u64(p->fd[MEM_CURRENT]) > CG_RESIDUE_MAX) {
            return -EBUSY;
        }
    }
    /* Since 6.12 a write resets the peak for this descriptor; before, it cannot be reset. */
    if (p->fd[MEM_PEAK] >= 0 &&
        (cg_rewrite(p->fd[MEM_PEAK], "0") < 0 || cg_rewrite(p->fd[MEM_OWN_PEAK], "0") < 0)) {
        return -EBUSY;
    }
    return 0;
}

/* ---- cpu ---- */

static int cpu_limit(const struct cg_part *p, const struct limits *l)
{
    char text[64];

    int r = str_format(text, sizeof(text), "%" PRIu64 " %d", cg_quota_us(l), CG_PERIOD_US);
    return r < 0 ? r : fd_write_file(p->dir_fd, "cpu.max", text);
}

static void cpuacct_usage(const struct cg_part *p, struct cgroup_usage *ret)
{
    ret->cpu_ns = cg_read_key(p->fd[0], "usage_usec") * 1000;
}

/* ---- pids: the same files in both versions ---- */

enum { PIDS_CURRENT, PIDS_EVENTS };

static int pids_limit(const struct cg_part *p, const struct limits *l)
{
    return cg_write_u64(p->dir_fd, "pids.max", l->pids);
}

static void pids_usage(const struct cg_part *p, struct cgroup_usage *ret)
{
    ret->pids_now = cg_read_u64(p->fd[PIDS_CURRENT]);
    ret->pids_refused = cg_read_key(p->fd[PIDS_EVENTS], "max");
}

static int pids_reset(const struct cg_part *p)
{
    /* Also counts zombies, which would use up a part of the next box's limit. */
    return cg_read_u64(p->fd[PIDS_CURRENT]) == 0 ? 0 : -EBUSY;
}

/* ---- io ---- */

static void io_usage(const struct cg_part *p, struct cgroup_usage *ret)
{
    char text[CG_TEXT_SIZE];

    if (cg_read(p->fd[0], text, sizeof(text)) < 0) {
        return;
    }
    ret->io_read = cg_sum(text, " rbytes=");
    ret->io_write = cg_sum(text, " wbytes=");
}

static const struct cg_ops memory_ops = {
    .needs = "memory.max",
    .files = {{.name = "memory.current"},
              {.name = "memory.peak", .writable = true, .optional = true},
              {.name = "memory.events"},
              {.name = "memory.peak", .writable = true, .is_own = true, .optional = true}},
    .prepare = memory_prepare,
    .oom = memory_oom,
    .limit = memory_limit,
    .usage = memory_usage,
    .reset = memory_reset,
};
static const struct cg_ops cpu_ops = {.needs = "cpu.max", .limit = cpu_limit};
static const struct cg_ops cpuacct_ops = {
    .files = {{.name = "cpu.stat"}},
    .usage = cpuacct_usage,
};
static const struct cg_ops io_ops = {
    .files = {{.name = "io.stat", .optional = true}},
    .usage = io_usage,
};
const struct cg_ops cg_pids_ops = {
    .needs = "pids.max",
    .files = {{.name = "pids.current"}, {.name = "pids.events", .optional = true}},
    .limit = pids_limit,
    .usage = pids_usage,
    .reset = pids_reset,
};

const struct cg_ops *const cg_v2_ops[CG_RESOURCES] = {
    [CG_MEMORY] = &memory_ops, [CG_CPU] = &cpu_ops, [CG_CPUACCT] = &cpuacct_ops,
    [CG_PIDS] = &cg_pids_ops,  [CG_IO] = &io_ops,
};
