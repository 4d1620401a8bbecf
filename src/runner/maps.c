/* SPDX-License-Identifier: Apache-2.0 */
/* Reading /proc/self/maps; see maps.h. */
#include "runner/maps.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uintptr_t take_hex(const char **p)
{
    uintptr_t v = 0;

    for (;; (*p)++) {
        char c = **p;
        unsigned d;
        if (c >= '0' && c <= '9') {
            d = (unsigned)(c - '0');
        } else if (c >= 'a' && c <= 'f') {
            d = (unsigned)(c - 'a') + 10;
        } else {
            return v;
        }
        v = v * 16 + d;
    }
}

/* "start-end rwxp offset dev inode name" */
static void read_line(struct maps *m, const char *line, size_t n)
{
    struct mapping *at = &m->list[m->n++];
    const char *p = line;

    at->start = take_hex(&p);
    p++;
    at->end = take_hex(&p);
    p++;
    at->prot = (p[0] == 'r' ? PROT_READ : 0) | (p[1] == 'w' ? PROT_WRITE : 0) |
               (p[2] == 'x' ? PROT_EXEC : 0);
    at->is_private = p[3] == 'p';
    at->is_stack = memmem(line, n, "[stack]", 7) != NULL;
    at->is_kernel = memmem(line, n, "[v", 2) != NULL; /* vvar, vdso, vsyscall */
}

static int read_text(struct maps *m, size_t *ret)
{
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    ssize_t n;

    if (fd < 0) {
        return -errno;
    }
    while ((n = read(fd, m->text + *ret, sizeof(m->text) - *ret)) > 0) {
        *ret += (size_t)n;
    }
    close(fd);
    return n < 0 ? -EIO : *ret == sizeof(m->text) ? -EFBIG : 0;
}

struct maps *maps_read(void)
{
    struct maps *m =
        mmap(NULL, sizeof(*m), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    size_t len = 0;

    if (m == MAP_FAILED) {
        return NULL;
    }
    int r = read_text(m, &len);
    if (r < 0) {
        maps_free(m);
        errno = -r;
        return NULL;
    }
    for (char *line = m->text; line < m->text + len && m->n < MAPS_MAX;) {
        char *end = memchr(line, '\n', (size_t)(m->text + len - line));
        if (end == NULL) {
            break;
        }
        read_line(m, line, (size_t)(end - line));
        line = end + 1;
    }
    return m;
}

/*
 * One line of /proc/self/smaps: the same list, each followed by lines that begin with a capital
 * letter.
 */
static void read_flags_line(struct maps *m, size_t *seen, const char *line, size_t n)
{
    if (line[0] < 'A' || line[0] > 'Z') {
        ++*seen;
    } else if (*seen > 0 && *seen <= m->n && n > 8 && memcmp(line, "VmFlags:", 8) == 0) {
        m->list[*seen - 1].is_kept_back =
            memmem(line, n, " wf", 3) != NULL || memmem(line, n, " dc", 3) != NULL;
    }
}

int maps_read_flags(struct maps *m)
{
    int fd = open("/proc/self/smaps", O_RDONLY | O_CLOEXEC);
    size_t seen = 0;
    size_t len = 0;
    ssize_t n;

    if (fd < 0) {
        return -errno;
    }
    while ((n = read(fd, m->text + len, sizeof(m->text) - len)) > 0) {
        len += (size_t)n;
        char *line = m->text;
        char *end;
        while ((end = memchr(line, '\n', (size_t)(m->text + len - line))) != NULL) {
            read_flags_line(m, &seen, line, (size_t)(end - line));
            line = end + 1;
        }
        len = (size_t)(m->text + len - line);
        memmove(m->text, line, len);
    }
    close(fd);
    return n < 0 ? -EIO : 0;
}

void maps_free(struct maps *m)
{
    if (m != NULL) {
        munmap(m, sizeof(*m));
    }
}

bool maps_adjoin(const struct maps *m, size_t i)
{
    return i > 0 && i < m->n && m->list[i - 1].end == m->list[i].start;
}
