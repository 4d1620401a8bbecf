/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of a session's box; see processes.h. */
#include "runner/processes.h"

#include <errno.h>
#include <sys/resource.h>

static struct rlimit own; /* as PID 1 got it; user code could change what the kernel has */

int processes_open(void)
{
    return getrlimit(RLIMIT_NPROC, &own) < 0 ? -errno : 0;
}

int processes_bound(void)
{
    const struct rlimit users = {.rlim_cur = own.rlim_cur, .rlim_max = own.rlim_cur};

    return setrlimit(RLIMIT_NPROC, &users) < 0 ? -errno : 0;
}

void processes_use_reserve(bool on)
{
    const struct rlimit now = {.rlim_cur = on ? own.rlim_max : own.rlim_cur,
                               .rlim_max = own.rlim_max};

    (void)setrlimit(RLIMIT_NPROC, &now); /* else the fork fails, which is reported */
}
