/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A vfork child that never lets go: the parent sleeps where ordinary signals do not reach it.
 *
 * technique: S7
 * held: both are ended at the time limit
 * expect: status=timeout
 * cause: timeout
 * limits: --timeout 1
 */
#include <signal.h>
#include <unistd.h>

int main(void)
{
    sigset_t all;

    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    if (vfork() == 0) {
        for (;;)
            pause();
    }
    return 0;
}
