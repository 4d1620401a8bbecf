/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launcher's capabilities; see caps.h.
 *
 * Each row was found by removing it and running the box, launcher and integration tests: a
 * capability that no test needs does not belong here.
 */
#include "launcher/caps.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/prctl.h>

#include "base/attr.h"
#include "box/sys.h"

#define ROW(cap, roles, reason)                                                                    \
    {                                                                                              \
        cap, roles, #cap, reason                                                                   \
    }

const struct caps_row caps_rows[] = {
    ROW(CAP_SYS_ADMIN, CAPS_LAUNCHER | CAPS_ROOTLESS,
        "open_tree() and mount_setattr() of a template's sources, fsmount() of its /dev, clone3() "
        "into new namespaces"),
    ROW(CAP_SETUID, CAPS_LAUNCHER,
        "write uid_map of a zygote; setresuid() to the owner of its user namespace, and to mark "
        "ids as taken"),
    ROW(CAP_SETGID, CAPS_LAUNCHER, "write gid_map of a zygote"),
    ROW(CAP_SETFCAP, CAPS_ROOTLESS, "write uid_map of a zygote that has id 0 of our namespace"),
    ROW(CAP_KILL, CAPS_LAUNCHER | CAPS_GUARD, "pidfd_send_signal() to zygotes and boxes"),
    ROW(CAP_DAC_OVERRIDE, CAPS_LENT,
        "write cgroup.procs and make directories in a cgroup of another user, as in containers"),
    ROW(CAP_MKNOD, CAPS_LAUNCHER, "mknodat() of the devices in a template's /dev"),
    ROW(CAP_SYS_PTRACE, CAPS_LAUNCHER,
        "open /proc/PID/ns/user for the id map of a lent directory, and /proc/PID/root of a box to "
        "see how full its disk is; trace one to read its filters (inspect.c)"),
};
const size_t caps_rows_n = ARRAY_LEN(caps_rows);

uint64_t caps_of(unsigned role)
{
    uint64_t caps = 0;

    for (size_t i = 0; i < caps_rows_n; i++) {
        if ((caps_rows[i].roles & role) != 0) {
            caps |= (uint64_t)1 << caps_rows[i].cap;
        }
    }
    return caps;
}

int caps_drop(unsigned role, struct err *e)
{
    /* NO_SETUID_FIXUP: capabilities survive a short change of the effective id (zygote_clone.c). */
    const unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
                               SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
                               SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
    uint64_t keep = caps_of(role);

    int r = sys_caps_bound(keep);
    if (r < 0) {
        return err_sys(e, -r, "shrink the bounding set");
    }
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ||
        prctl(PR_SET_SECUREBITS, bits, 0, 0, 0) < 0) {
        return err_sys(e, errno, "lock secure bits");
    }
    r = sys_caps_keep(keep); /* last: the steps above need CAP_SETPCAP */
    if (r < 0) {
        return err_sys(e, -r, "drop capabilities");
    }
    return 0;
}
