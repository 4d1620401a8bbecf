/* SPDX-License-Identifier: Apache-2.0 */
/* Raw system calls; see sys.h. */
#include "box/sys.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/landlock.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LAST_CAP_TRIED 63 /* the kernel answers EINVAL above the last one that it knows */

static int result(long r)
{
    return r < 0 ? -errno : (int)r;
}

int sys_openat2(int dirfd, const char *path, const struct open_how *how)
{
    return result(syscall(SYS_openat2, dirfd, path, how, sizeof(*how)));
}

int sys_pidfd_signal(int pidfd, int sig)
{
    return result(syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0));
}

int sys_close_range(unsigned first, unsigned last)
{
    return result(syscall(SYS_close_range, first, last, 0));
}

int sys_leave_above(unsigned first)
{
    return result(syscall(SYS_close_range, first, ~0U, CLOSE_RANGE_UNSHARE));
}

int sys_caps_bound(uint64_t keep)
{
    for (int cap = 0; cap <= LAST_CAP_TRIED; cap++) {
        if ((keep >> cap & 1) == 0 && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0) {
            return errno == EINVAL && cap > CAP_AUDIT_READ ? 0 : -errno;
        }
    }
    return 0;
}

int sys_caps_keep(uint64_t keep)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct caps[2] = {{0}};

    if (keep != 0 && syscall(SYS_capget, &head, caps) < 0) {
        return -errno;
    }
    for (int i = 0; i < 2; i++) {
        uint32_t kept = caps[i].permitted & (uint32_t)(keep >> (32 * i));
        caps[i] = (struct __user_cap_data_struct){.effective = kept, .permitted = kept};
    }
    return result(syscall(SYS_capset, &head, caps));
}

int sys_landlock_abi(void)
{
    return result(syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION));
}

int sys_landlock_create(const struct landlock_ruleset *attr, size_t size)
{
    return result(syscall(SYS_landlock_create_ruleset, attr, size, 0));
}

int sys_landlock_allow(int ruleset, uint64_t access, int parent_fd)
{
    struct landlock_path_beneath_attr rule = {.allowed_access = access, .parent_fd = parent_fd};

    return result(syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0));
}

int sys_landlock_restrict(int ruleset)
{
    return result(syscall(SYS_landlock_restrict_self, ruleset, 0));
}
