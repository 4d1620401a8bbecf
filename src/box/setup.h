/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns a freshly cloned child of a zygote into a box: everything between clone3() and the first
 * byte of user code. Runs in the child, inside its new user, mount, pid, ipc and uts namespaces and
 * an emptied network namespace, while its parent writes its id maps.
 *
 * Async-signal-safe throughout: no allocation, no stdio, no locks.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/limits.h"
#include "box/cgroup.h"
#include "box/seccomp.h"

#define BOX_UID 1000     /* user code inside the box; never host id 0 outside */
#define BOX_CONTROL_FD 3 /* where the control socket ends up */
#define BOX_WORKSPACE "/workspace"
#define BOX_DISK "/run/box" /* root of the one writable file system */
#define BOX_WRITABLE_MAX 16 /* further writable mounts of a template */

struct box_setup {
    struct limits limits;
    uint32_t own_pids; /* processes beyond the limit that its first process may start */
    const struct seccomp_program *seccomp;
    int stdio[3];
    int control;              /* moves to BOX_CONTROL_FD; failures are reported to wherever it is */
    void (*await_maps)(void); /* returns when the parent has written the id maps */
    void (*touch_memory)(void); /* brings in pages that the first run will write; NULL: none */
    int procs[CGROUP_PROCS_MAX];
    size_t n_procs;
    int landlock_abi;
    bool limit_data; /* no cgroup limits memory, so each process is limited */
    bool single_id;  /* only BOX_UID is mapped: no root inside, no groups to drop */
    /* Mounts that user code may write, besides workspace, tmp and dev. */
    const char *const *writable;
    size_t n_writable;
};

/* Walks all steps; the first failure stops it and names the step. The caller must then _exit(). */
int box_setup(struct box_setup *s, struct err *e);
