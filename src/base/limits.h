/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one box may use. A plain value that crosses process borders inside fixed-size frames, so
 * every receiver checks it again with limits_check().
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/units.h"

struct limits {
    uint64_t memory_bytes; /* RAM of the whole box, swap excluded */
    /* that one process may have beside files; 0: bounded by memory_bytes only */
    uint64_t process_bytes;
    uint64_t disk_bytes;   /* everything writable in the box together; lives in memory_bytes */
    uint64_t timeout_ms;   /* wall-clock time of one run */
    uint64_t output_bytes; /* per stream: more ends the run */
    uint32_t cpu_milli;    /* 1000 is one core */
    uint32_t pids;         /* processes and threads */
    uint32_t inodes;       /* files and directories in everything writable */
    uint32_t open_files;   /* descriptors per process */
};

/* 1 GiB memory, 1 core, 128 pids, 30 s, 256 MiB disk. */
#define LIMITS_MEMORY_MAX (1024 * GIB)

#define CONTEXTS_MAX 64 /* contexts and checkpoints of one box */
/*
 * Processes that a session's box may have beyond its limit: our file workers, which must find room
 * whatever its user has started. Only its PID 1, which runs no user code, may use them.
 */
#define LIMITS_OWN_PIDS 8
#define HANDLER_TIMEOUT_MAX_MS 3600000 /* that the __timeout of an event may ask for */

struct limits limits_default(void);

/* Sets every field that is 0 to its default; disk and inodes shrink with a small memory. */
void limits_fill(struct limits *l);

/* ERR_INVALID naming the field and its range when a value is outside it. */
int limits_check(const struct limits *l, struct err *e);

/*
 * ERR_INVALID naming the field when one is larger than in `most`; a field that is 0 there sets no
 * bound.
 */
int limits_within(const struct limits *l, const struct limits *most, struct err *e);

/* The memory of this machine, the highest useful limit. LIMITS_MEMORY_MAX if unknown. */
uint64_t limits_machine_memory(void);

/* Files that fit beside the disk: each takes about 1 KiB of the box's memory. */
uint32_t limits_inodes_max(uint64_t memory_bytes);

/* The largest disk that fits below a memory limit: beyond it, "disk full" would be an OOM kill. */
uint64_t limits_disk_max(uint64_t memory_bytes);
uint64_t limits_memory_for(uint64_t disk_bytes); /* the least memory with room for that disk */
