/* SPDX-License-Identifier: Apache-2.0 */
/* clone3() as a fork; see rawfork.h. */
#include "runner/rawfork.h"

#include <errno.h>
#include <linux/sched.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LIBC_THREAD_WORDS 256 /* ints at the start of libc's thread descriptor that are searched */

/*
 * Where libc keeps the thread's id. libc's own fork() has the kernel update it in the child; so
 * must we, or raise() and some locks would use the parent's id. A kernel built with
 * CONFIG_CHECKPOINT_RESTORE reports the address; otherwise we search libc's thread descriptor.
 */
static int *libc_tid(void)
{
    int *address = NULL;

    if (prctl(PR_GET_TID_ADDRESS, &address, 0, 0, 0) == 0 && address != NULL) {
        return address;
    }
    int *words = (int *)pthread_self(); /* NOLINT: the descriptor is what pthread_t points to */
    int tid = (int)syscall(SYS_gettid);
    for (size_t i = 0; i < LIBC_THREAD_WORDS; i++) {
        if (words[i] == tid) {
            return &words[i];
        }
    }
    return NULL;
}

pid_t rawfork(uint64_t flags, int *pidfd)
{
    int *tid = libc_tid();
    struct clone_args args = {
        .flags = flags | CLONE_PIDFD,
        .pidfd = (uint64_t)(uintptr_t)pidfd,
        .exit_signal = SIGCHLD,
    };

    if (tid != NULL) {
        args.flags |= CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
        args.child_tid = (uint64_t)(uintptr_t)tid;
    }
    long pid = syscall(SYS_clone3, &args, sizeof(args));
    return pid < 0 ? -errno : (pid_t)pid;
}

pid_t rawfork_plain(void)
{
    int *tid = libc_tid();
    unsigned long flags = SIGCHLD;

    if (tid != NULL) {
        flags |= CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
    }
#if defined(__x86_64__)
    long pid = syscall(SYS_clone, flags, NULL, NULL, tid, NULL);
#else
    long pid = syscall(SYS_clone, flags, NULL, NULL, NULL, tid); /* the usual order */
#endif
    return pid < 0 ? -errno : (pid_t)pid;
}
