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

#define SHOWN 8192 /* of each end of a longer text */

int last_words_open(struct err *e)
{
    int fd = memfd_create("husk-stderr", MFD_CLOEXEC);

    return fd < 0 ? err_sys(e, errno, "memory for the zygote's stderr") : fd;
}

void last_words_clean(char *ret, size_t size, const char *text, size_t n)
{
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == ' ')) {
        n--;
    }
    str_printable(ret, size, text, n);
    for (char *c = ret; *c != '\0'; c++) {
        if (*c == '\n' || *c == '\t') {
            *c = ' ';
        }
    }
}

/*
 * The reason is at the end of a traceback and at the beginning of a crash report: of a text that is
 * too long both ends are shown.
 */
void last_words_read(int fd, char *ret, size_t size)
{
    char text[SHOWN];
    struct stat st;
    size_t half = MIN(size, sizeof(text)) / 2 - 4;

    ret[0] = '\0';
    if (fd < 0 || fstat(fd, &st) < 0) {
        return;
    }
    bool fits = st.st_size < (off_t)(2 * half);
    ssize_t n = pread(fd, text, fits ? sizeof(text) : half, 0);
    last_words_clean(ret, size, text, (size_t)MAX(n, 0));
    if (fits) {
        return;
    }
    size_t used = strlen(ret); /* more than half, if something had to be escaped */
    n = pread(fd, text, half, st.st_size - (off_t)half);
    if (n > 0 && used + 8 < size) {
        memcpy(ret + used, " ... ", 6);
        last_words_clean(ret + used + 5, size - used - 5, text, (size_t)n);
    }
}
