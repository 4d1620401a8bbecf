/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two processes that stop and continue each other without end, every signal handled or blocked.
 *
 * technique: S7 R5
 * held: both are ended at the time limit
 * expect: status=timeout
 * cause: timeout
 * limits: --timeout 1
 */
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

int main(void)
{
    sigset_t all;

    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    pid_t first = getpid();
    pid_t second = fork();
    pid_t other = second == 0 ? first : second;
    for (;;) {
        kill(other, SIGSTOP);
        kill(other, SIGCONT);
        if (getppid() == 0)
            setsid();
    }
}
