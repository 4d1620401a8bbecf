/* SPDX-License-Identifier: Apache-2.0 */
/* Counting what could leak; see stock.h. */
#include "stock.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "host.h"

static const struct {
    const char *name;
    double slack;
} kinds[STOCK_KINDS] = {
    [STOCK_RSS_KB] = {"RSS of client or server, launcher and zygote, KB", 512},
    [STOCK_SLAB_KB] = {"kernel slab in use, KB", 4096}, /* the whole machine's: 0.2 KB per run */
    [STOCK_DESCRIPTORS] = {"descriptors", 0},
    [STOCK_CGROUPS] = {"cgroups", 0},
    [STOCK_NETNS] = {"network namespaces", 0},
    [STOCK_MOUNTS] = {"mounts", 0},
    [STOCK_PROCESSES] = {"processes", 0},
};

int stock_take(pid_t root, struct stock *ret, struct err *e)
{
    static struct host_family family;
    struct host_memory memory;
    size_t netns = 0;
    double *of = ret->of;

    memset(ret, 0, sizeof(*ret));
    if (host_memory(&memory, e) < 0 || host_family(root, &family, e) < 0) {
        return -1;
    }
    of[STOCK_RSS_KB] = host_rss(root);
    of[STOCK_SLAB_KB] = memory.unreclaimable;
    of[STOCK_DESCRIPTORS] = (double)host_descriptors(root, NULL);
    of[STOCK_MOUNTS] = (double)host_mounts(root);
    of[STOCK_PROCESSES] = (double)family.n;
    for (size_t i = 0; i < family.n; i++) {
        pid_t pid = family.members[i].pid;
        if (family.members[i].generation <= 2) { /* launcher and daemon, guard and zygote */
            of[STOCK_RSS_KB] += host_rss(pid);
            of[STOCK_DESCRIPTORS] += (double)host_descriptors(pid, &netns);
            of[STOCK_MOUNTS] += (double)host_mounts(pid);
        }
        if (family.members[i].generation == 1) {
            of[STOCK_CGROUPS] += (double)host_cgroups(pid);
        }
    }
    of[STOCK_NETNS] = (double)netns;
    return 0;
}

void stock_report(struct world *w, const char *id, const struct stock *before,
                  const struct stock *after)
{
    struct row row = {.what = "kinds of things left behind",
                      .unit = "kinds",
                      .ours = {.n = STOCK_KINDS},
                      .bar = OURS_AT_MOST(0, 0)};

    (void)str_copy(row.id, sizeof(row.id), id);
    for (int i = 0; i < STOCK_KINDS; i++) {
        bool leaked = after->of[i] - before->of[i] > kinds[i].slack;
        row.ours.p50 += leaked;
        fprintf(stderr, "    %-46s %9.0f -> %9.0f%s\n", kinds[i].name, before->of[i], after->of[i],
                leaked ? "  LEAK" : "");
    }
    row.ours.min = row.ours.p99 = row.ours.p50;
    report_add(&w->report, &row);
}
