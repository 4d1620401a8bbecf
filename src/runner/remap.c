/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Freezing memory; see remap.h.
 *
 * Every private mapping that may hold written pages is copied into one memfd and mapped again from
 * there at the same address. Between the copy and the new mapping nothing may write to the region,
 * so the loop touches only its own stack (which is left out) and makes raw system calls: errno
 * and every other libc variable live in regions that are being replaced.
 *
 * Regions that lie side by side with the same protection get neighbouring places in the file, so the kernel
 * merges them into one mapping: fewer to copy on every fork.
 */
#include "runner/remap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REGIONS_MAX 2048
#define MAPS_TEXT_MAX ((size_t)512 * 1024)

struct region {
    uintptr_t start;
    uintptr_t end;
    int prot;
};

struct scan {
    struct region regions[REGIONS_MAX];
    size_t n;
    char text[MAPS_TEXT_MAX];
};

/* The raw call: no errno, no cancellation, no libc state. */
static inline long call6(long nr, const long args[6])
{
#if defined(__x86_64__)
    register long r10 __asm__("r10") = args[3];
    register long r8 __asm__("r8") = args[4];
    register long r9 __asm__("r9") = args[5];
    long ret;

    __asm__ volatile("syscall"
                     : "=a"(ret)
                     : "a"(nr), "D"(args[0]), "S"(args[1]), "d"(args[2]), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return ret;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = nr;
    register long x0 __asm__("x0") = args[0];
    register long x1 __asm__("x1") = args[1];
    register long x2 __asm__("x2") = args[2];
    register long x3 __asm__("x3") = args[3];
    register long x4 __asm__("x4") = args[4];
    register long x5 __asm__("x5") = args[5];

    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
#else
#    error "add the system call instruction of this architecture"
#endif
}

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

/* Stack: in use right now. vvar, vdso, vsyscall: the kernel's own. */
static bool is_left_out(const char *line, size_t n)
{
    return memmem(line, n, "[stack]", 7) != NULL || memmem(line, n, "[v", 2) != NULL;
}

/* One line of /proc/self/maps: "start-end rwxp offset dev inode name". */
static void scan_line(struct scan *s, const char *line, size_t n)
{
    const char *p = line;
    struct region r = {.prot = 0};

    r.start = take_hex(&p);
    p++;
    r.end = take_hex(&p);
    p++;
    bool readable = p[0] == 'r';
    bool writable = p[1] == 'w';
    bool executable = p[2] == 'x';
    bool private_map = p[3] == 'p';
    /* Text and constants are clean file pages already. Relocated constants (RELRO) are not: r--p of a library. */
    if (!private_map || !readable || executable || is_left_out(line, n) || s->n == REGIONS_MAX) {
        return;
    }
    r.prot = PROT_READ | (writable ? PROT_WRITE : 0);
    s->regions[s->n++] = r;
}

static int scan_maps(struct scan *s)
{
    size_t len = 0;
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

    if (fd < 0) {
        return -errno;
    }
    for (;;) {
        ssize_t n = read(fd, s->text + len, sizeof(s->text) - len);
        if (n <= 0) {
            break;
        }
        len += (size_t)n;
    }
    close(fd);
    if (len == sizeof(s->text)) {
        return -EFBIG;
    }
    for (char *line = s->text; line < s->text + len;) {
        char *end = memchr(line, '\n', (size_t)(s->text + len - line));
        if (end == NULL) {
            break;
        }
        scan_line(s, line, (size_t)(end - line));
        line = end + 1;
    }
    return 0;
}

/* Copies a region into the file. Touches nothing but this function's stack. */
static bool dump_region(int fd, const struct region *r, uint64_t offset)
{
    uintptr_t at = r->start;

    while (at < r->end) {
        const long args[6] = {fd, (long)at, (long)(r->end - at), (long)offset};
        long n = call6(SYS_pwrite64, args);
        if (n <= 0) {
            return false;
        }
        at += (uintptr_t)n;
        offset += (uint64_t)n;
    }
    return true;
}

static bool map_region(int fd, const struct region *r, uint64_t offset)
{
    const long args[6] = {
        (long)r->start, (long)(r->end - r->start), r->prot, MAP_PRIVATE | MAP_FIXED, fd,
        (long)offset};
    long at = call6(SYS_mmap, args);
    return at == (long)r->start;
}

int remap_freeze(struct remap_stats *ret)
{
    struct remap_stats stats = {0};
    int result = 0;
    uint64_t offset = 0;

    /* In a shared mapping, which the scan skips: its own bookkeeping must not be replaced. */
    struct scan *s =
        mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s == MAP_FAILED) {
        return -errno;
    }
    int fd = memfd_create("husk-template", MFD_CLOEXEC);
    if (fd < 0 || scan_maps(s) < 0) {
        result = fd < 0 ? -errno : -EFBIG;
        s->n = 0;
    }
    for (size_t i = 0; i < s->n && result == 0; i++) {
        const struct region *r = &s->regions[i];
        if (!dump_region(fd, r, offset) || !map_region(fd, r, offset)) {
            result = -EIO;
            break;
        }
        stats.regions++;
        stats.bytes += r->end - r->start;
        offset += r->end - r->start;
    }
    if (fd >= 0) {
        close(fd);
    }
    munmap(s, sizeof(*s));
    *ret = stats;
    return result;
}
