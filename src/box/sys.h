/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls and constants that glibc 2.36 or the 6.1 kernel headers do not have yet.
 *
 * All return what the kernel returned, as -errno on failure. Async-signal-safe.
 */
#pragma once

#include <linux/openat2.h>
#include <linux/sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

int sys_openat2(int dirfd, const char *path, const struct open_how *how);
int sys_pidfd_signal(int pidfd, int sig);
int sys_close_range(unsigned first, unsigned last);
/* Leaves a shared table of descriptors for a copy that has only those below first. */
int sys_leave_above(unsigned first);

/* Sets of capabilities as bits. The bounding set loses all but keep: that needs CAP_SETPCAP. */
int sys_caps_bound(uint64_t keep);
/* Permitted and effective set: keep, as far as permitted; inheritable set: empty. */
int sys_caps_keep(uint64_t keep);

/*
 * Landlock, with the access bits of newer kernels (ABI 3: truncate, 5: device ioctls, 6: scopes).
 */
#define LANDLOCK_FS_TRUNCATE (1ULL << 14)
#define LANDLOCK_FS_IOCTL_DEV (1ULL << 15)
#define LANDLOCK_SCOPE_ABSTRACT_UNIX (1ULL << 0)
#define LANDLOCK_SCOPE_SIGNALS (1ULL << 1)

struct landlock_ruleset {
    uint64_t handled_access_fs;
    uint64_t handled_access_net;
    uint64_t scoped;
};

int sys_landlock_abi(void);
int sys_landlock_create(const struct landlock_ruleset *attr, size_t size);
int sys_landlock_allow(int ruleset, uint64_t access, int parent_fd);
int sys_landlock_restrict(int ruleset);
