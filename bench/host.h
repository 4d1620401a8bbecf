/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel says about memory and processes. Reads /proc, changes nothing. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

#define HOST_FAMILY_MAX 4096

/* Kernel memory in KB: of the whole machine, so only differences mean something. */
struct host_memory {
    double reclaimable;   /* slab: caches that are given back under pressure */
    double unreclaimable; /* slab: in use */
    double page_tables;
    double kernel_stack;
    double percpu;
};

int host_memory(struct host_memory *ret, struct err *e);

/* All descendants of a process. Generation 1 are its children. */
struct host_family {
    struct {
        pid_t pid;
        int generation;
    } members[HOST_FAMILY_MAX];
    size_t n;
};

int host_family(pid_t root, struct host_family *ret, struct err *e);

/* KB that a process alone has written to, or 0 when it is gone. */
double host_private_dirty(pid_t pid);
double host_rss(pid_t pid);

double host_cpu_ms(pid_t pid); /* processor time that it has used, or 0 when it is gone */

/*
 * Open descriptors of a process; those that refer to network namespaces in ret_netns (may be NULL).
 */
size_t host_descriptors(pid_t pid, size_t *ret_netns);

size_t host_mounts(pid_t pid);       /* in its mount namespace */
size_t host_cgroups(pid_t launcher); /* directories that it made, in all hierarchies */
