/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding and loading system-call filters; see seccomp.h. The programs themselves are generated.
 *
 * Runs between fork and user code: must not allocate, and must not report success without a filter.
 */
#include "box/seccomp.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/str.h"

const struct seccomp_program *seccomp_find(const char *name)
{
    for (size_t i = 0; i < seccomp_programs_n; i++) {
        if (str_eq(seccomp_programs[i].name, name)) {
            return &seccomp_programs[i];
        }
    }
    return NULL;
}

int seccomp_load(const struct seccomp_code *c)
{
    struct sock_fprog prog = {.len = c->len, .filter = (struct sock_filter *)c->code};

    /* The kernel asks this of unprivileged callers only; for us a missing step is always a bug. */
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) {
        return -EACCES;
    }

    /* No flags: speculation mitigations stay on, and other threads are the caller's business. */
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0 ? -errno : 0;
}
