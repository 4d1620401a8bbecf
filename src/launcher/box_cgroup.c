/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cgroups of a template's boxes, used again for its next ones; see launcher.h.
 *
 * A box joins its cgroup itself, through descriptors that pass through its zygote: moving another
 * process takes the kernel's lock over all thread groups, which can take 10 ms. A hostile zygote
 * can keep such descriptors. So a cgroup never moves to another template, and all cgroups of a
 * template are removed with it: then the descriptors are useless.
 */
#include <stdlib.h>

#include "base/str.h"
#include "launcher/launcher.h"

struct cgroup *box_cgroup_take(struct launcher *l, struct template *t, uint32_t box_id,
                               const struct launcher_req *req, struct err *e)
{
    struct cgroup *cg = NULL;
    struct limits limits = req->box.limits;
    char name[32];

    if (req->box.mode == LAUNCHER_SESSION) {
        limits.pids += LIMITS_OWN_PIDS; /* user code is held to less by RLIMIT_NPROC */
    }

    if (t->n_spare > 0) {
        cg = t->spare[--t->n_spare];
    } else {
        (void)str_format(name, sizeof(name), "box-%u", box_id);
        if (cgroup_new_box(l->cgroups, name, &cg, e) < 0) {
            return NULL;
        }
    }
    if (cgroup_set_limits(cg, &limits, e) < 0 ||
        cgroup_set_oom(cg, req->box.mode == LAUNCHER_SESSION, e) < 0) {
        cgroup_free(cg);
        return NULL;
    }
    return cg;
}

void box_cgroup_give(struct template *t, struct cgroup *cg)
{
    if (cg != NULL && t->n_spare < CGROUPS_KEPT && cgroup_unfold(cg) >= 0 &&
        cgroup_recycle(cg) == 0) {
        t->spare[t->n_spare++] = cg;
    } else {
        cgroup_free(cg);
    }
}

void box_cgroup_free_all(struct template *t)
{
    while (t->n_spare > 0) {
        cgroup_free(t->spare[--t->n_spare]);
    }
}
