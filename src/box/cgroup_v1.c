/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cgroup v1: each resource's files.
 *
 * Here the OOM killer kills one process and leaves the rest of the box; we only count it, and the
 * launcher decides.
 */
#include <errno.h>
#include <fcntl.h>

#include "base/fd.h"
#include "box/cgroup_impl.h"

/* ---- memory ---- */

enum { MEM_USAGE, MEM_PEAK = CG_MEMORY_PEAK, MEM_OOM };

static int memory_prepare(const struct cg_part *p)
{
    return cg_write_u64(p->dir_fd, "memory.swappiness", 0);
}

/* Socket buffers are counted apart from other memory in v1, and without this not at all. */
static int sockets_limit(const struct cg_part *p, const struct limits *l)
{
    int r = cg_write_u64(p->dir_fd, "memory.kmem.tcp.limit_in_bytes", l->memory_bytes / 4);

    return r == -ENOENT ? 0 : r; /* a kernel without network */
}

static int memory_limit(const struct cg_part *p, const struct limits *l)
{
    /* memory and swap together may never be less than memory alone: that decides the order. */
    int r = cg_write_u64(p->dir_fd, "memory.limit_in_bytes", l->memory_bytes);
    bool raised = r == -EINVAL;

    if (r < 0 && !raised) {
        return r;
    }
    r = cg_write_u64(p->dir_fd, "memory.memsw.limit_in_bytes", l->memory_bytes);
    if (r == -ENOENT && !raised) {
        /* Swap is not accounted on this host; swappiness 0 keeps the box out of it. */
        return sockets_limit(p, l);
    }
    if (r == 0 && raised) {
        r = cg_write_u64(p->dir_fd, "memory.limit_in_bytes", l->memory_bytes);
    }
    return r < 0 ? r : sockets_limit(p, l);
}

static void memory_usage(const struct cg_part *p, struct cgroup_usage *ret)
{
    ret->memory_now = cg_read_u64(p->fd[MEM_USAGE]);
    ret->memory_peak = cg_read_u64(p->fd[MEM_PEAK]);
    ret->oom_kills = cg_read_key(p->fd[MEM_OOM], "oom_kill");
}

static int memory_reset(const struct cg_part *p)
{
    if (cg_read_u64(p->fd[MEM_USAGE]) > CG_RESIDUE_MAX) {
        /* Page cache, or charges that a CPU keeps in advance. What counts is what is left. */
        fd_write_file(p->dir_fd, "memory.force_empty", "0");
        if (cg_read_u64(p->fd[MEM_USAGE]) > CG_RESIDUE_MAX) {
            return -EBUSY;
        }
    }
    return cg_rewrite(p->fd[MEM_PEAK], "0") < 0 ? -EBUSY : 0;
}

/* ---- cpu ---- */

/* Only if it is another one: for each write the kernel looks at all groups that there are. */
static int cpu_prepare(const struct cg_part *p)
{
    AUTO_CLOSE int fd = -1;

    fd = openat(p->dir_fd, "cpu.cfs_period_us", O_RDONLY | O_CLOEXEC);
    return fd >= 0 && cg_read_u64(fd) == CG_PERIOD_US
               ? 0
               : cg_write_u64(p->dir_fd, "cpu.cfs_period_us", CG_PERIOD_US);
}

static int cpu_limit(const struct cg_part *p, const struct limits *l)
{
    return cg_write_u64(p->dir_fd, "cpu.cfs_quota_us", cg_quota_us(l));
}

static void cpuacct_usage(const struct cg_part *p, struct cgroup_usage *ret)
{
    ret->cpu_ns = cg_read_u64(p->fd[0]);
}

static int cpuacct_reset(const struct cg_part *p)
{
    return cg_write_u64(p->dir_fd, "cpuacct.usage", 0) < 0 ? -EBUSY : 0;
}

/* ---- blkio: lines of "8:0 Read 4096" ---- */

static void blkio_usage(const struct cg_part *p, struct cgroup_usage *ret)
{
    char text[CG_TEXT_SIZE];

    if (cg_read(p->fd[0], text, sizeof(text)) < 0) {
        return;
    }
    ret->io_read = cg_sum(text, " Read ");
    ret->io_write = cg_sum(text, " Write ");
}

static const struct cg_ops memory_ops = {
    .needs = "memory.limit_in_bytes",
    .files = {{.name = "memory.usage_in_bytes"},
              {.name = "memory.max_usage_in_bytes", .writable = true},
              {.name = "memory.oom_control"}},
    .prepare = memory_prepare,
    .limit = memory_limit,
    .usage = memory_usage,
    .reset = memory_reset,
};
static const struct cg_ops cpu_ops = {
    .needs = "cpu.cfs_quota_us",
    .prepare = cpu_prepare,
    .limit = cpu_limit,
};
static const struct cg_ops cpuacct_ops = {
    .files = {{.name = "cpuacct.usage"}},
    .usage = cpuacct_usage,
    .reset = cpuacct_reset,
};
static const struct cg_ops blkio_ops = {
    .files = {{.name = "blkio.throttle.io_service_bytes", .optional = true}},
    .usage = blkio_usage,
};

const struct cg_ops *const cg_v1_ops[CG_RESOURCES] = {
    [CG_MEMORY] = &memory_ops, [CG_CPU] = &cpu_ops,  [CG_CPUACCT] = &cpuacct_ops,
    [CG_PIDS] = &cg_pids_ops,  [CG_IO] = &blkio_ops,
};
