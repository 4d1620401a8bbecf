/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of one box; see limits.h. */
#include "base/limits.h"

#include <inttypes.h>
#include <unistd.h>

#include "base/units.h"

#define INODE_COST 1024 /* bytes of kernel memory per file, name and small attributes included */
#define INODE_SHARE 4   /* inodes may take a quarter of the memory */

struct limits limits_default(void)
{
    return (struct limits){
        .memory_bytes = GIB,
        .disk_bytes = 256 * MIB,
        .timeout_ms = 30000,
        .output_bytes = 64 * MIB,
        .cpu_milli = 1000,
        .pids = 128,
        .inodes = 65536,
        .open_files = 1024,
    };
}

uint64_t limits_machine_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    long page = sysconf(_SC_PAGE_SIZE);

    return pages > 0 && page > 0 ? MIN((uint64_t)pages * (uint64_t)page, LIMITS_MEMORY_MAX)
                                 : LIMITS_MEMORY_MAX;
}

uint64_t limits_disk_max(uint64_t memory_bytes)
{
    return memory_bytes / 4 * 3;
}

uint64_t limits_memory_for(uint64_t disk_bytes)
{
    return disk_bytes / 3 * 4 + 4;
}

uint32_t limits_inodes_max(uint64_t memory_bytes)
{
    uint64_t n = memory_bytes / INODE_SHARE / INODE_COST;

    return n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

void limits_fill(struct limits *l)
{
    const struct limits d = limits_default();

    l->memory_bytes = l->memory_bytes != 0 ? l->memory_bytes : d.memory_bytes;
    l->disk_bytes = l->disk_bytes != 0 ? l->disk_bytes : MIN(d.disk_bytes, l->memory_bytes / 2);
    l->timeout_ms = l->timeout_ms != 0 ? l->timeout_ms : d.timeout_ms;
    l->output_bytes = l->output_bytes != 0 ? l->output_bytes : d.output_bytes;
    l->cpu_milli = l->cpu_milli != 0 ? l->cpu_milli : d.cpu_milli;
    l->pids = l->pids != 0 ? l->pids : d.pids;
    l->inodes = l->inodes != 0 ? l->inodes : MIN(d.inodes, limits_inodes_max(l->memory_bytes));
    l->open_files = l->open_files != 0 ? l->open_files : d.open_files;
}

int limits_within(const struct limits *l, const struct limits *most, struct err *e)
{
    const struct {
        const char *name;
        uint64_t value;
        uint64_t most;
    } rows[] = {
        {"memory", l->memory_bytes, most->memory_bytes},
        {"disk", l->disk_bytes, most->disk_bytes},
        {"cpus (thousandths)", l->cpu_milli, most->cpu_milli},
        {"pids", l->pids, most->pids},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (rows[i].most != 0 && rows[i].value > rows[i].most) {
            return err_set(e, ERR_INVALID,
                           "%s is %" PRIu64 ", the template allows a box at most %" PRIu64,
                           rows[i].name, rows[i].value, rows[i].most);
        }
    }
    return 0;
}

int limits_check(const struct limits *l, struct err *e)
{
    const struct {
        const char *name;
        uint64_t value;
        uint64_t min;
        uint64_t max;
    } rows[] = {
        {"memory", l->memory_bytes, 16 * MIB, LIMITS_MEMORY_MAX},
        {"disk", l->disk_bytes, MIB / 4, 1024 * GIB},
        {"timeout (ms)", l->timeout_ms, 1, (uint64_t)7 * 24 * 3600 * 1000},
        {"output", l->output_bytes, 1024, 64 * GIB},
        {"cpus (thousandths)", l->cpu_milli, 10, 1024000},
        {"pids", l->pids, 1, 32768},
        {"inodes", l->inodes, 16, 100000000},
        {"open files", l->open_files, 16, 1048576},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (rows[i].value < rows[i].min || rows[i].value > rows[i].max) {
            return err_set(e, ERR_INVALID,
                           "%s is %" PRIu64 ", must be between %" PRIu64 " and %" PRIu64,
                           rows[i].name, rows[i].value, rows[i].min, rows[i].max);
        }
    }
    if (l->process_bytes != 0 &&
        (l->process_bytes < 16 * MIB || l->process_bytes > l->memory_bytes)) {
        return err_set(e, ERR_INVALID,
                       "memory of a process is %" PRIu64 ", must be between %" PRIu64
                       " and that of the box, %" PRIu64,
                       l->process_bytes, (uint64_t)16 * MIB, l->memory_bytes);
    }
    if (l->disk_bytes > limits_disk_max(l->memory_bytes)) {
        return err_set(e, ERR_INVALID,
                       "disk (%" PRIu64
                       " MiB) is kept in memory and must be at most three quarters "
                       "of it (%" PRIu64 " MiB): raise memory or lower disk",
                       l->disk_bytes / MIB, limits_disk_max(l->memory_bytes) / MIB);
    }
    if (l->inodes > limits_inodes_max(l->memory_bytes)) {
        return err_set(e, ERR_INVALID,
                       "inodes (%" PRIu32 ") are kept in memory too: at most %" PRIu32
                       " fit, raise memory or lower inodes",
                       l->inodes, limits_inodes_max(l->memory_bytes));
    }
    return 0;
}
