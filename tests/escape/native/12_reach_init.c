/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The box's own init as a target: read it, write it, trace it, take its descriptors.
 *
 * technique: E13 S6
 * held: nothing of process 1 can be read, written, traced or taken
 * expect: status=completed exit=0 stdout~HELD
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

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
    static const char *const files[] = {"/proc/1/mem",  "/proc/1/environ", "/proc/1/maps",
                                        "/proc/1/auxv", "/proc/1/fd/0",    "/proc/1/root/etc"};
    char byte = 0;
    struct iovec here = {.iov_base = &byte, .iov_len = 1};
    struct iovec there = {.iov_base = (void *)0x400000, .iov_len = 1};

    if (getpid() == 1) {
        puts("this program is process 1 itself");
        return 2;
    }
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        check(files[i], open(files[i], O_RDONLY));
    check("mem for writing", open("/proc/1/mem", O_RDWR));
    check("ptrace", ptrace(PTRACE_SEIZE, 1, 0, 0));
    check("process_vm_readv", process_vm_readv(1, &here, 1, &there, 1, 0));
    check("process_vm_writev", process_vm_writev(1, &here, 1, &there, 1, 0));
    for (int fd = 0; fd < 16; fd++)
        check("pidfd_getfd", syscall(SYS_pidfd_getfd, syscall(SYS_pidfd_open, 1, 0), fd, 0));
    check("kcmp", syscall(SYS_kcmp, 1, getpid(), 0, 0, 0));
    if (!broken)
        puts("HELD");
    return broken;
}
