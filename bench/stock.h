/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a launcher and those around it have, before and after many runs: things that a leak would
 * make more of. Bounds say what is noise: a leak grows with the runs and leaves any of them far
 * behind.
 */
#pragma once

#include <sys/types.h>

#include "bench.h"

enum stock_kind {
    STOCK_RSS_KB,
    STOCK_SLAB_KB,
    STOCK_DESCRIPTORS,
    STOCK_CGROUPS,
    STOCK_NETNS,
    STOCK_MOUNTS,
    STOCK_PROCESSES,
    STOCK_KINDS,
};

struct stock {
    double of[STOCK_KINDS];
};

/* Of a process that has started a launcher: itself, its children and theirs (guard and zygotes). */
int stock_take(pid_t root, struct stock *ret, struct err *e);

/*
 * Says what changed, and adds a row that counts the kinds of things of which there are more than
 * before.
 */
void stock_report(struct world *w, const char *id, const struct stock *before,
                  const struct stock *after);
