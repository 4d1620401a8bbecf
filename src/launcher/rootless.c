/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Without root: the launcher becomes root of a user namespace that maps only its own id. Everything
 * after that works as with real root, except that all boxes share that one id outside.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include "base/str.h"
#include "launcher/launcher.h"

static int write_self(const char *file, const char *text, struct err *e)
{
    int r = fd_write_file(AT_FDCWD, file, text);

    if (r < 0) {
        return err_sys(e, -r, "write %s", file);
    }
    return 0;
}

int rootless_enter(struct err *e)
{
    char uid_map[64];
    char gid_map[64];

    (void)str_format(uid_map, sizeof(uid_map), "0 %u 1\n", geteuid());
    (void)str_format(gid_map, sizeof(gid_map), "0 %u 1\n", getegid());
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0) {
        err_sys(e, errno, "new user namespace");
        e->code = ERR_ISOLATION;
        return err_wrap(e, "run husk as root, or allow unprivileged user namespaces");
    }
    if (write_self("/proc/self/setgroups", "deny", e) < 0 ||
        write_self("/proc/self/uid_map", uid_map, e) < 0) {
        return -1;
    }
    return write_self("/proc/self/gid_map", gid_map, e);
}
