/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A 32-bit program: its system calls have other numbers, which an x86-64 allowlist does not see.
 *
 * technique: E19
 * held: the first call of a 32-bit program kills it with SIGSYS
 * expect: status=crashed exit=159 stdout!~ESCAPED
 * cause: seccomp
 * build: -m32
 */
#include <stdio.h>

int main(void)
{
    puts("ESCAPED: 32-bit calls are served");
    return 1;
}
