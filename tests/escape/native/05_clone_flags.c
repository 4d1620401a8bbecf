/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A new namespace of each kind by clone, unshare and clone3.
 *
 * technique: E6
 * held: clone and unshare give EPERM for each flag, clone3 gives ENOSYS whatever it is asked
 * expect: status=completed exit=0 stdout~HELD
 */
#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static const long flags[] = {
    CLONE_NEWUSER, CLONE_NEWNS,  CLONE_NEWPID,    CLONE_NEWNET,
    CLONE_NEWIPC,  CLONE_NEWUTS, CLONE_NEWCGROUP, CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID,
};
#define NEWTIME 0x80L /* unshare only: in clone the bit belongs to the exit signal */

static int refused(const char *how, long flag, long got, int wanted)
{
    if (got == 0 && how[0] == 'c')
        _exit(0); /* the child of a clone that worked */
    if (got == -1 && errno == wanted)
        return 1;
    printf("ESCAPED: %s with %#lx gave %ld, errno %d\n", how, flag, got, errno);
    return 0;
}

int main(void)
{
    int held = 1;

    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        struct clone_args args = {.flags = (uint64_t)flags[i], .exit_signal = SIGCHLD};

        fflush(stdout);
        held &=
            refused("clone", flags[i], syscall(SYS_clone, flags[i] | SIGCHLD, 0, 0, 0, 0), EPERM);
        held &= refused("clone3", flags[i], syscall(SYS_clone3, &args, sizeof(args)), ENOSYS);
        held &= refused("unshare", flags[i], syscall(SYS_unshare, flags[i]), EPERM);
    }
    held &= refused("unshare", NEWTIME, syscall(SYS_unshare, NEWTIME), EPERM);
    if (held)
        puts("HELD");
    return !held;
}
