/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPU time of a process and of everything it starts, its end included, as the kernel counts it per
 * cgroup of the unified tree. Resource usage of children would not do: it lacks each child that is
 * never waited for.
 *
 * What kernel threads do later (freeing a network namespace, for one) belongs to no process and is
 * not counted.
 */
#pragma once

#include "base/err.h"

/* Moves the calling process into a new cgroup, below which its descendants will be. */
int cpu_join(struct err *e);
void cpu_remove(
    int pid); /* takes away the cgroup of a process that has ended with everything it started */

/* ms used so far by that cgroup and by those that descendants have made and moved to. */
int cpu_read(double *ret, struct err *e);
