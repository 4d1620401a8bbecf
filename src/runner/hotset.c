/* SPDX-License-Identifier: Apache-2.0 */
/* The hot set; see hotset.h. Like all zygote code it must not allocate. */
#include "runner/hotset.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "runner/rawfork.h"

#ifndef MADV_POPULATE_WRITE
#    define MADV_POPULATE_WRITE 23
#endif

#define RANGES_MAX 1024
#define PAGE 4096u
#define PAGEMAP_PRESENT ((uint64_t)1 << 63)
#define PAGEMAP_FILE ((uint64_t)1 << 61)

struct range {
    uintptr_t start;
    uintptr_t pages;
};

static struct {
    struct range ranges[RANGES_MAX];
    size_t n;
    int pipe_write; /* in the rehearsal child */
} hot;

static void add_page(uintptr_t at)
{
    struct range *last = hot.n > 0 ? &hot.ranges[hot.n - 1] : NULL;

    if (last != NULL && at == last->start + last->pages * PAGE) {
        last->pages++;
    } else if (hot.n < RANGES_MAX) {
        hot.ranges[hot.n++] = (struct range){.start = at, .pages = 1};
    }
}

/* Which pages of one mapping are our own copies already. */
static void scan_mapping(int pagemap, uintptr_t start, uintptr_t end)
{
    uint64_t entries[512];

    for (uintptr_t at = start; at < end;) {
        size_t want = MIN((end - at) / PAGE, ARRAY_LEN(entries));
        ssize_t n = pread(pagemap, entries, want * sizeof(entries[0]),
                          (off_t)(at / PAGE * sizeof(entries[0])));
        if (n <= 0) {
            return;
        }
        for (size_t i = 0; i < (size_t)n / sizeof(entries[0]); i++, at += PAGE) {
            if ((entries[i] & PAGEMAP_PRESENT) != 0 && (entries[i] & PAGEMAP_FILE) == 0) {
                add_page(at);
            }
        }
    }
}

void hotset_save(void)
{
    unsigned long start;
    unsigned long end;
    char perms[8];
    char line[512];

    FILE *maps = fopen("/proc/self/maps", "re");
    int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    hot.n = 0;
    while (maps != NULL && pagemap >= 0 && fgets(line, sizeof(line), maps) != NULL) {
        /* Reads are left to the kernel: it maps sixteen pages around each one by itself. */
        if (sscanf(line, "%lx-%lx %7s", &start, &end, perms) == 3 && /* NOLINT(cert-err34-c) */
            strchr(line, '/') != NULL && perms[3] == 'p' && perms[1] == 'w') {
            scan_mapping(pagemap, start, end);
        }
    }
    (void)fd_write_all(hot.pipe_write, hot.ranges, hot.n * sizeof(hot.ranges[0]));
    _exit(0);
}

bool hotset_rehearse(void)
{
    int pipe_fds[2];

    if (pipe2(pipe_fds, O_CLOEXEC) < 0) {
        return false;
    }
    pid_t pid = rawfork_plain();
    if (pid == 0) {
        close(pipe_fds[0]);
        hot.pipe_write = pipe_fds[1];
        return true;
    }
    close(pipe_fds[1]);
    if (pid > 0) {
        ssize_t n = fd_read_all(pipe_fds[0], hot.ranges, sizeof(hot.ranges));
        hot.n = n > 0 ? (size_t)n / sizeof(hot.ranges[0]) : 0;
        (void)waitpid(pid, NULL, 0);
    }
    close(pipe_fds[0]);
    return false;
}

void hotset_touch(void)
{
    for (size_t i = 0; i < hot.n; i++) {
        const struct range *r = &hot.ranges[i];
        if (madvise((void *)r->start /* NOLINT(performance-no-int-to-ptr) */, r->pages * PAGE,
                    MADV_POPULATE_WRITE) < 0 &&
            errno == EINVAL) {
            return; /* before Linux 5.14 */
        }
    }
}
