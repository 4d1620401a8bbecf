/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Typing into a terminal from inside, each request also with bit 32 set, which the kernel ignores.
 *
 * technique: E8
 * held: the filter refuses each request on our own fresh pty, where the kernel would allow it
 * expect: status=completed exit=0 stdout~HELD
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BIT_32 (1L << 32)

int main(void)
{
    static const long requests[] = {0x5412, 0x541c, 0x5423}; /* TIOCSTI TIOCLINUX TIOCSETD */
    char text[] = "X\n";
    int held = 1;

    setsid();
    int master = open("/dev/ptmx", O_RDWR);
    if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0) {
        puts("no pty to try on");
        return 2;
    }
    int slave = open(ptsname(master), O_RDWR);
    if (slave < 0) {
        puts("no pty to try on");
        return 2;
    }
    for (size_t i = 0; i < 6; i++) {
        long request = requests[i % 3] | (i < 3 ? 0 : BIT_32);

        errno = 0;
        if (syscall(SYS_ioctl, slave, request, text) == -1 && errno == EPERM)
            continue;
        printf("ESCAPED: request %#lx, errno %d\n", request, errno);
        held = 0;
    }
    if (held)
        puts("HELD");
    return !held;
}
