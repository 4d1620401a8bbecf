/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Freezing the box of an idle session; see launcher.h.
 *
 * Only boxes whose client prepared them before user code ran can be frozen: then every process of
 * the box is a descendant of the one that was moved. Nothing else changes for a frozen box: it is
 * killed, released, kept and reported like any other, since SIGKILL ends what cgroup.freeze stops.
 */
#include <errno.h>

#include "box/sys.h"
#include "launcher/launcher.h"

static int prepare(struct box_entry *box)
{
    pid_t first = pidfd_pid(box->pidfd);

    if (first <= 0) {
        return -ESRCH;
    }
    int r = cgroup_prepare_freeze(box->cgroup, first);
    /* It lives, so the number named it when it was moved. */
    return r == 0 && sys_pidfd_signal(box->pidfd, 0) < 0 ? -ESRCH : r;
}

int box_freeze(struct box_entry *box, enum launcher_freeze how, struct err *e)
{
    int r = -EINVAL;

    if (!box->is_session || box->state != BOX_LIVE || box->silent || box->cgroup == NULL) {
        return err_set(e, ERR_NOT_FOUND, "box %u is no live box of a session", box->id);
    }
    if (how == LAUNCHER_PREPARE) {
        r = box->can_freeze ? 0 : prepare(box);
        box->can_freeze = r == 0;
    } else if (box->can_freeze) {
        r = cgroup_freeze(box->cgroup, how == LAUNCHER_FROZEN);
        box->is_frozen = r == 0 ? how == LAUNCHER_FROZEN : box->is_frozen;
    }
    return r < 0 ? err_sys(e, -r, "freeze or thaw box %u", box->id) : 0;
}
