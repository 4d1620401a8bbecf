/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A taken-over huskd as it really runs: a process with the account, the groups and the descriptors
 * that the supervisor gives to huskd, and with the confinement that huskd puts on itself.
 *
 * It works in a scratch folder, its working directory:
 *
 *   data/                root's, as the data folder of a server
 *     husk.log, husk.pid, settings
 *     store/             the daemon's own, with the file "own"
 *   open/                a folder of root's where every user may write, with the file "shared"
 *   lib/                 root's, where husk's own files would be
 *   id                   a copy of id(1), set-uid root
 *
 * An attempt runs in that process. Afterwards nothing outside store/ may have changed.
 *
 * Needs root and the account "husk"; else the test is skipped.
 */
#pragma once

#include <sys/types.h>

#define CONFINED_SOCKET 3 /* to the supervisor */
#define CONFINED_LIB 4    /* husk's files, O_PATH */
#define CONFINED_PLAN 5   /* of agents, sealed */

struct confined {
    uid_t uid;
    gid_t gid;
    pid_t root;     /* a process of root's: the test */
    pid_t stranger; /* one of the daemon's account that is not confined and can be dumped */
};

extern struct confined confined;

/* What a system call came to: its result, or -errno. */
long confined_result(long result);

/*
 * Runs the attempt in a confined daemon. It must return -errno, and the error must be one of the
 * names in wanted ("EPERM EACCES"): others would mean that it was not really tried. The report says
 * that the daemon tried to do `what`, and that it was refused.
 */
void confined_try(const char *what, const char *wanted, long (*attempt)(void));

/* TEST(a_confined_daemon_<name>) whose block is the attempt. */
#define ATTEMPT(name, what, wanted)                                                                \
    static long try_##name(void);                                                                  \
    TEST(a_confined_daemon_##name)                                                                 \
    {                                                                                              \
        confined_try(what, wanted, try_##name);                                                    \
    }                                                                                              \
    static long try_##name(void)
