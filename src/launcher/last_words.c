/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a template's program writes to stderr before it is ready: usually why it fails to start, for
 * example that the loader misses a library.
 *
 * A file in memory: it never blocks the program, and needs no reader while the program starts.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "launcher/launcher.h"

#define TAIL 1024

int last_words_open(struct err *e)
{
    int fd = memfd_create("husk-stderr", MFD_CLOEXEC);

    return fd < 0 ? err_sys(e, errno, "memory for the zygote's stderr") : fd;
}

void last_words_read(int fd, char *ret, size_t size)
{
    char tail[TAIL];
    struct stat st;

    ret[0] = '\0';
    if (fd < 0 || fstat(fd, &st) < 0) {
        return;
    }
    ssize_t n = pread(fd, tail, sizeof(tail), MAX(st.st_size - TAIL, 0));
    while (n > 0 && (tail[n - 1] == '\n' || tail[n - 1] == ' ')) {
        n--;
    }
    if (n > 0) {
        const char *newline = memrchr(tail, '\n', (size_t)n);
        const char *line = newline != NULL ? newline + 1 : tail;
        str_printable(ret, size, line, (size_t)(tail + n - line));
    }
}
