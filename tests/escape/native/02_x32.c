/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A 64-bit program that sets bit 30 of the call number, the x32 entry point.
 *
 * technique: E19
 * held: a call with the x32 bit kills the program with SIGSYS
 * expect: status=crashed exit=159 stdout!~ESCAPED
 * cause: seccomp
 */
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define X32_BIT 0x40000000L

int main(void)
{
    long got = syscall(X32_BIT | SYS_getpid);

    printf("ESCAPED: the x32 call came back with %ld\n", got);
    fflush(stdout);
    return 1;
}
