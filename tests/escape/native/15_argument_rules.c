/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that are allowed in general and refused for single arguments, also with the upper half of
 * the word set.
 *
 * technique: E14 E15 E21
 * held: page merging, fixed addresses, device nodes and set-mm are refused
 * expect: status=completed exit=0 stdout~HELD
 */
#include <stdio.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HIGH (1L << 32)
#define MEMORY_MERGE 67

static int broken;

static void check(const char *what, long got)
{
    if (got < 0)
        return;
    printf("ESCAPED: %s\n", what);
    broken = 1;
}

int main(void)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    for (long high = 0; high <= HIGH; high += HIGH) {
        check("madvise mergeable", syscall(SYS_madvise, page, 4096, 12 | high));
        check("madvise hwpoison", syscall(SYS_madvise, page, 4096, 100 | high));
        check("madvise offline", syscall(SYS_madvise, page, 4096, 101 | high));
        check("prctl merge", syscall(SYS_prctl, MEMORY_MERGE | high, 1, 0, 0, 0));
        check("prctl mm", syscall(SYS_prctl, PR_SET_MM | high, PR_SET_MM_BRK, page, 0, 0));
        check("personality", syscall(SYS_personality, ADDR_NO_RANDOMIZE | high));
        check("read implies exec", syscall(SYS_personality, READ_IMPLIES_EXEC | high));
        check("mknod", syscall(SYS_mknod, "/tmp/n", (S_IFCHR | 0600) | high, 0x103));
        check("mknodat", syscall(SYS_mknodat, -100, "/tmp/m", (S_IFBLK | 0600) | high, 0x700));
        check("socket alg", syscall(SYS_socket, 38 | high, 5, 0));
        check("socketpair vsock", syscall(SYS_socketpair, 40 | high, 1, 0, page));
    }
    if (!broken)
        puts("HELD");
    return broken;
}
