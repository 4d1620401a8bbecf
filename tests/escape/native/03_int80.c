/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A 64-bit program that enters the kernel through the 32-bit gate with int 0x80.
 *
 * technique: E19
 * held: the gate kills the program with SIGSYS, or the kernel has no such gate (SIGSEGV)
 * expect: status=crashed exit=159|139 stdout!~ESCAPED
 */
#include <stdio.h>

#define I386_GETPID 20

int main(void)
{
    long got = I386_GETPID;

    __asm__ volatile("int $0x80" : "+a"(got) : : "memory", "r8", "r9", "r10", "r11");
    printf("ESCAPED: int 0x80 came back with %ld\n", got);
    fflush(stdout);
    return 1;
}
