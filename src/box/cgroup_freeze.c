/* SPDX-License-Identifier: Apache-2.0 */
/* Freezing a box; see cgroup.h. */
#include <errno.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/str.h"
#include "box/cgroup_impl.h"

/* The directory in the unified tree, which comes first if there is one. */
static int freezer_of(const struct cgroup *cg)
{
    return cg->host->facts.freeze && cg->made[0] ? cg->dirs[0] : -1;
}

static int make_twin(struct cgroup *cg)
{
    const struct cg_tree *t = &cg->host->trees.tree[0];

    if (mkdirat(t->dir_fd, cg->name, 0755) < 0) {
        return -errno;
    }
    cg->made[0] = true;
    int r = cg_open_dir(t->dir_fd, cg->name);
    if (r >= 0) {
        cg->dirs[0] = r;
        r = 0;
    }
    return r;
}

/* Threads count as well, and zombies. */
static bool is_alone(const struct cgroup *cg)
{
    const struct cg_part *pids = &cg->parts[CG_PIDS];
    char text[32];

    return pids->ops != NULL &&
           fd_read_file(pids->dir_fd, "pids.current", text, sizeof(text)) > 0 &&
           cg_number_at(text) == 1;
}

int cgroup_prepare_freeze(struct cgroup *cg, pid_t first)
{
    char pid[16];

    if (!cg->host->facts.freeze) {
        return -ENOTSUP;
    }
    if (cg->first == 0) {
        return 0; /* it has joined this tree */
    }
    if (cg->made[0] || !is_alone(cg)) {
        return -EBUSY;
    }
    int r = make_twin(cg);
    if (r == 0 && str_format(pid, sizeof(pid), "%d", (int)first) == 0) {
        r = fd_write_file(cg->dirs[0], "cgroup.procs", pid);
    }
    /* Afterwards: what it forked until then is not in the directory. */
    return r == 0 && !is_alone(cg) ? -EBUSY : r;
}

int cgroup_freeze(struct cgroup *cg, bool on)
{
    int dir = freezer_of(cg);

    if (dir < 0) {
        return -ENOTSUP;
    }
    int r = fd_write_file(dir, "cgroup.freeze", on ? "1" : "0");
    cg->is_frozen = r == 0 ? on : cg->is_frozen;
    return r;
}
