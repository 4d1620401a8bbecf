/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Boxes that live long hold few descriptors; see cgroup.h. A thousand sessions at twenty
 * descriptors each would not fit into what a process may open.
 */
#include "base/fd.h"
#include "box/cgroup_impl.h"

static bool is_file(const struct cg_part *p, size_t i)
{
    return p->ops != NULL && p->ops->files[i].name != NULL;
}

/* A view is whole or not at all: one tree of v2, and every counter stays. */
static bool can_reopen_counters(const struct cgroup *cg)
{
    const struct cg_trees *trees = &cg->host->trees;
    bool can = true;

    for (size_t i = cg->first; i < trees->n; i++) {
        can = can && (!trees->tree[i].unified || trees->tree[i].resources == 0);
    }
    return can;
}

static void close_files(struct cgroup *cg, bool is_waiting)
{
    bool all = is_waiting && can_reopen_counters(cg);

    for (size_t i = 0; i < CGROUP_PROCS_MAX; i++) {
        fd_close(&cg->procs[i]);
    }
    for (size_t r = 0; r < CG_RESOURCES; r++) {
        struct cg_part *p = &cg->parts[r];
        for (size_t i = 0; i < CG_PART_FILES; i++) {
            if (is_file(p, i) && (all || !cg_is_counter(p->ops->files[i].name))) {
                fd_close(&p->fd[i]);
            }
        }
    }
}

void cgroup_fold(struct cgroup *cg, bool is_waiting)
{
    if (cg->folded && cg->is_waiting && !is_waiting) {
        (void)cgroup_unfold(cg); /* its counters are wanted from now on */
    }
    if (!cg->folded) {
        close_files(cg, is_waiting);
        cg->folded = true;
        cg->is_waiting = is_waiting;
    }
}

static int unfold_part(struct cg_part *p)
{
    int r = 0;

    for (size_t i = 0; i < CG_PART_FILES && r == 0; i++) {
        if (is_file(p, i) && p->fd[i] < 0) {
            r = cg_open_file(p->dir_fd, &p->ops->files[i], &p->fd[i]);
        }
    }
    return r;
}

int cgroup_unfold(struct cgroup *cg)
{
    int r = 0;

    if (!cg->folded) {
        return 0;
    }
    /* Counters first: should descriptors run out, they are what matters. */
    for (size_t i = 0; i < CG_RESOURCES && r == 0; i++) {
        r = unfold_part(&cg->parts[i]);
    }
    for (size_t i = cg->first; i < cg->host->trees.n && r == 0; i++) {
        r = cg_open_procs(cg->dirs[i], cg->host->trees.tree[i].unified, &cg->procs[i]);
    }
    if (r < 0) {
        close_files(cg, false);
        return r;
    }
    cg->folded = false;
    return 1;
}
