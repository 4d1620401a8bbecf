/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of the page-cache writes: splice a page of a read-only file into a pipe, then write to
 * the pipe.
 *
 * technique: E7
 * held: no call that puts file pages into a pipe works, and the file keeps its first bytes
 * expect: status=completed exit=0 stdout~HELD
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

int main(void)
{
    char before[8] = {0};
    char after[8] = {0};
    int ends[2];
    loff_t offset = 0;
    int held = 1;

    int file = open("/etc/passwd", O_RDONLY);
    if (file < 0 || pipe(ends) < 0 || pread(file, before, 7, 0) <= 0) {
        puts("nothing to try on");
        return 2;
    }
    if (splice(file, &offset, ends[1], NULL, 1, 0) >= 0 || errno != ENOSYS)
        held = 0;
    struct iovec piece = {.iov_base = before, .iov_len = 7};
    if (vmsplice(ends[1], &piece, 1, 0) >= 0 || errno != ENOSYS)
        held = 0;
    if (tee(ends[0], ends[1], 1, 0) >= 0 || errno != ENOSYS)
        held = 0;
    if (write(ends[1], "owned", 5) < 0)
        held = 0;
    if (pread(file, after, 7, 0) <= 0 || memcmp(before, after, sizeof(before)) != 0)
        held = 0;
    puts(held ? "HELD" : "ESCAPED: pages of a file reach a pipe");
    return !held;
}
