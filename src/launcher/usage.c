/* SPDX-License-Identifier: Apache-2.0 */
/* What a box has used, from the kernel's files; see launcher.h. */
#include <fcntl.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/str.h"
#include "box/setup.h"
#include "box/sys.h"
#include "launcher/launcher.h"

/*
 * How full the box's file system is. Its root is read-only and built by us, and nothing inside may
 * mount, so the path cannot be rearranged; links are refused all the same. The box stays alive
 * meanwhile: only the launcher ends it.
 */
static void fill_disk(const struct box_entry *box, struct launcher_usage *ret)
{
    AUTO_CLOSE int root = -1;
    AUTO_CLOSE int disk = -1;
    char path[64];
    struct statfs fs;
    struct open_how how = {
        .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };

    pid_t pid = box->pidfd >= 0 ? pidfd_pid(box->pidfd) : -1;
    if (pid <= 0) {
        return;
    }
    (void)str_format(path, sizeof(path), "/proc/%d/root", pid);
    root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    /* The pidfd's process still lives, so the number named this process when we opened it. */
    if (root < 0 || sys_pidfd_signal(box->pidfd, 0) < 0) {
        return;
    }
    disk = sys_openat2(root, &BOX_DISK[1], &how);
    if (disk >= 0 && fstatfs(disk, &fs) == 0) {
        ret->disk_free = (uint64_t)fs.f_bfree * (uint64_t)fs.f_bsize;
        ret->inodes_free = fs.f_ffree;
    }
}

void usage_fill(const struct box_entry *box, bool want_disk, struct launcher_usage *ret)
{
    struct cgroup_usage u;

    int was_folded = cgroup_unfold(box->cgroup);
    cgroup_usage(box->cgroup, &u);
    if (was_folded == 1 && box->kept != NULL) {
        cgroup_fold(box->cgroup, true);
    }
    *ret = (struct launcher_usage){
        .cpu_ns = u.cpu_ns,
        .memory_now = u.memory_now,
        .memory_peak = u.memory_peak,
        .io_read = u.io_read,
        .io_write = u.io_write,
        .oom_kills = u.oom_kills,
        .processes = u.pids_now,
        .pids_refused = u.pids_refused,
        .disk_free = UINT64_MAX,
        .inodes_free = UINT64_MAX,
    };
    if (want_disk) {
        fill_disk(box, ret);
    }
}

void usage_report_all(struct launcher *l, const struct launcher_req *req)
{
    struct launcher_rep rep = {.event = LAUNCHER_EV_USAGE, .seq = req->seq};
    struct cgroup_usage u;

    cgroup_host_usage(l->cgroups, &u);
    rep.box.usage = (struct launcher_usage){.cpu_ns = u.cpu_ns,
                                            .memory_now = u.memory_now,
                                            .processes = u.pids_now,
                                            .disk_free = UINT64_MAX,
                                            .inodes_free = UINT64_MAX};
    reply(l, &rep);
}
