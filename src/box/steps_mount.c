/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps that build the box's own part of the mount tree: disk, proc, devpts.
 *
 * Everything else was mounted read-only by the template (box/root.c) and is locked. No user code
 * has run in this mount namespace yet, so the paths here are ours.
 */
#include <errno.h>
#include <inttypes.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "box/root_sys.h"
#include "box/steps.h"

static int bind(const char *from, const char *to, struct err *e)
{
    if (mount(from, to, NULL, MS_BIND, NULL) < 0) {
        return err_sys(e, errno, "bind %s to %s", from, to);
    }
    return 0;
}

/*
 * One tmpfs for all that can be written, so that one number limits it. Without size= and
 * nr_inodes= a full disk would be an out-of-memory kill instead of ENOSPC.
 */
int step_disk(struct box_setup *s, struct err *e)
{
    char options[128];
    unsigned owner = s->single_id ? BOX_UID : 0;

    if (str_format(options, sizeof(options),
                   "size=%" PRIu64 ",nr_inodes=%" PRIu32 ",mode=0711,uid=%u,gid=%u",
                   s->limits.disk_bytes, s->limits.inodes, owner, owner) < 0) {
        return err_set(e, ERR_SYSTEM, "tmpfs options do not fit");
    }
    if (mount("tmpfs", BOX_DISK, "tmpfs", MS_NOSUID | MS_NODEV, options) < 0) {
        return err_sys(e, errno, "mount tmpfs");
    }
    umask(0);
    if (mkdir(BOX_DISK "/workspace", 0700) < 0 || mkdir(BOX_DISK "/tmp", 01777) < 0) {
        return err_sys(e, errno, "make the box's folders");
    }
    umask(077);
    if (bind(BOX_DISK "/workspace", BOX_WORKSPACE, e) < 0 || bind(BOX_DISK "/tmp", "/tmp", e) < 0) {
        return -1;
    }
    return 0;
}

/*
 * Mounts an empty file or directory over an entry of /proc that reveals facts about the host. An
 * absent entry is fine.
 */
static int mask(const char *name, const char *with, struct err *e)
{
    if (mount(with, name, NULL, MS_BIND, NULL) < 0 && errno != ENOENT) {
        return err_sys(e, errno, "mask /proc/%s", name);
    }
    return 0;
}

int step_proc(struct box_setup *s, struct err *e)
{
    (void)s;
    if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0) {
        return err_sys(e, errno, "mount proc");
    }
    return 0;
}

/*
 * Read-only as a whole: that covers sysrq-trigger and all other switches at once, and also
 * /proc/self/mem and oom_score_adj. Only world-readable entries need a mask: a box owns no id of
 * the host, so kcore, timer_list, kpagecount and the like refuse it by their mode.
 *
 * Each mask costs a box about 0.5 % of its processor time (docs/performance.md). Masked are entries
 * that name things of the host or change with other activity there, unless programs need them.
 * Facts about the kernel and the hardware are shown. docs/threats.md has the verdict on each entry.
 */
int step_proc_masks(struct box_setup *s, struct err *e)
{
    static const char *const files[] = {
        "bootconfig", "buddyinfo",  "cgroups",     "cmdline",       "config.gz", "diskstats",
        "interrupts", "kallsyms",   "keys",        "latency_stats", "locks",     "mdstat",
        "modules",    "partitions", "sched_debug", "schedstat",     "swaps",     "zoneinfo"};
    static const char *const dirs[] = {"acpi", "asound", "bus",      "driver", "dynamic_debug",
                                       "fs",   "irq",    "pressure", "scsi"};
    const unsigned long read_only =
        MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC;

    (void)s;
    /* An absent entry and an absent mask look the same to mask(). */
    if (access("/dev/null", F_OK) < 0 || access("/run/empty", F_OK) < 0 ||
        access(ROOT_SYS, F_OK) < 0) {
        return err_sys(e, errno, "find /dev/null and /run/empty for masks");
    }
    if (mount(NULL, "/proc", NULL, read_only, NULL) < 0) {
        return err_sys(e, errno, "make proc read-only");
    }
    if (chdir("/proc") < 0) { /* short names resolve faster; step_descriptors() leaves again */
        return err_sys(e, errno, "enter /proc");
    }
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        if (mask(files[i], "/dev/null", e) < 0) {
            return -1;
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        if (mask(dirs[i], "/run/empty", e) < 0) {
            return -1;
        }
    }
    return mask("sys", ROOT_SYS, e);
}

int step_devpts(struct box_setup *s, struct err *e)
{
    (void)s;
    if (mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
              "newinstance,ptmxmode=0666,mode=0620,max=64") < 0) {
        return err_sys(e, errno, "mount devpts");
    }
    return 0;
}
