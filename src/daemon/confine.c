/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon gives up what it does not need before it reads the first byte from outside: writing
 * anywhere but in its part of the data folder, and every system call that a boxed program may not
 * make either. An attacker who takes it over can ask the launcher for boxes, and do little else.
 */
#include "daemon/confine.h"

#include <errno.h>
#include <sys/prctl.h>

#include "box/landlock.h"
#include "box/seccomp.h"

int confine_self(const char *store, struct err *e)
{
    const char *writable[] = {store, "/dev/null"};

    /* Its memory holds what clients send: other processes of this account must not read it. */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
        return err_sys(e, errno, "prctl");
    }
    if (landlock_confine(landlock_abi(), writable, 2, e) < 0) {
        return -1;
    }
    int r = seccomp_load(&seccomp_daemon.whole);
    return r < 0 ? err_sys(e, -r, "load the filter of system calls") : 0;
}
