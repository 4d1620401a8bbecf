/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A layer between SQLite and the file system that fails, holds, counts and records syncs.
 *
 * fault_vfs_install() makes it the default for this process; until something is asked for below it
 * only passes through. Callable from any thread.
 */
#pragma once

#include <stdbool.h>

void fault_vfs_install(void);

unsigned fault_vfs_syncs(void); /* that succeeded so far */

/* The next n syncs fail like those of a broken disk; -1: all until told otherwise. */
void fault_vfs_fail_syncs(int n);

/* Syncs wait from now on until released. */
void fault_vfs_hold(void);
void fault_vfs_wait_until_held(void); /* returns when a thread waits in a sync */
void fault_vfs_release(void);

/*
 * After each sync the file is copied to dir under its own name: what a disk without power for its
 * caches would hold. Copies are complete or absent, also if the process is killed in between.
 */
void fault_vfs_record(const char *dir);
