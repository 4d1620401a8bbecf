/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Freezing memory; see remap.h.
 *
 * Every private mapping is copied into one memfd and mapped again from there at the same address.
 * Between the copy and the new mapping nothing may write to the region, so the loop touches only
 * its own stack (which is left out) and makes raw system calls: errno and every other libc
 * variable live in regions that are being replaced.
 *
 * Regions that lie side by side with the same protection get neighbouring places in the file, so
 * the kernel merges them into one mapping: fewer to copy on every fork. Text is included for the
 * same reason, and for another: in the page cache of the host it consists of small pages, of which
 * every box would fault in some hundred; here it becomes huge pages, one fault each.
 */
#include "runner/remap.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runner/maps.h"

#define HUGE ((uintptr_t)2 * 1024 * 1024)
/*
 * Of one program or library, and of all: larger text stays in the page cache, which has it already.
 */
#define TEXT_RUN_MAX ((uintptr_t)8 * 1024 * 1024)
#define TEXT_MAX ((uintptr_t)24 * 1024 * 1024)

#ifndef MADV_COLLAPSE
#    define MADV_COLLAPSE 25
#endif

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

/* Copies a region into the file. Touches nothing but this function's stack. */
static bool dump_region(int fd, const struct mapping *r)
{
    uint64_t offset = r->offset;

    for (uintptr_t at = r->start; at < r->end;) {
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

static bool map_region(int fd, const struct mapping *r)
{
    const long args[6] = {
        (long)r->start, (long)(r->end - r->start), r->prot, MAP_PRIVATE | MAP_FIXED, fd,
        (long)r->offset};
    long at = call6(SYS_mmap, args);
    return at == (long)r->start;
}

/*
 * Not the stack, which is in use; not shared memory, nor memory that is writable and executable.
 * Memory that a child must not get stays as it is: the C library keeps the state of getrandom() in
 * memory that is wiped at a fork, and a copy of it would give every box the same random numbers.
 */
static bool is_ours(const struct mapping *r)
{
    const int jit = PROT_WRITE | PROT_EXEC;

    return r->is_private && !r->is_stack && !r->is_kernel && !r->is_kept_back &&
           (r->prot & PROT_READ) != 0 && (r->prot & jit) != jit;
}

static void keep_ours(struct maps *m)
{
    size_t n = 0;

    for (size_t i = 0; i < m->n; i++) {
        if (is_ours(&m->list[i])) {
            m->list[n++] = m->list[i];
        }
    }
    m->n = n;
}

/*
 * One past the last region that lies side by side with the first, like it in whether it may be
 * written.
 */
static size_t run_end(const struct maps *m, size_t first)
{
    int writable = m->list[first].prot & PROT_WRITE;
    size_t end = first + 1;

    while (end < m->n && maps_adjoin(m, end) && (m->list[end].prot & PROT_WRITE) == writable) {
        end++;
    }
    return end;
}

/* How much text and constants a run has, 0 if it has no text. */
static uintptr_t text_size(const struct maps *m, size_t first, size_t end)
{
    int prot = 0;

    for (size_t i = first; i < end; i++) {
        prot |= m->list[i].prot;
    }
    return (prot & PROT_EXEC) != 0 ? m->list[end - 1].end - m->list[first].start : 0;
}

static uintptr_t text_in_all(const struct maps *m)
{
    uintptr_t total = 0;

    for (size_t i = 0, end; i < m->n; i = end) {
        end = run_end(m, i);
        uintptr_t size = text_size(m, i, end);
        total += size <= TEXT_RUN_MAX ? size : 0;
    }
    return total;
}

/*
 * Text beyond the bounds stays mapped from its own file; only the relocated constants beside it do
 * not. The program is lowest and is always converted; of the libraries, those at low addresses were
 * loaded last, and are left first.
 */
static void leave_large_text(struct maps *m)
{
    uintptr_t total = text_in_all(m);

    for (size_t i = 0, end; i < m->n; i = end) {
        end = run_end(m, i);
        uintptr_t size = text_size(m, i, end);
        if (size <= TEXT_RUN_MAX && (i == 0 || total <= TEXT_MAX)) {
            continue;
        }
        total -= size <= TEXT_RUN_MAX ? size : 0;
        for (size_t k = i; k < end; k++) {
            if ((m->list[k].prot & PROT_EXEC) != 0) {
                m->list[k].prot = PROT_NONE;
            }
        }
    }
    keep_ours(m);
}

/*
 * Constants beside text become executable, so that the whole is one mapping. Code in a box may
 * execute any memory anyway.
 */
static void join_text(struct maps *m)
{
    for (size_t i = 0; i < m->n;) {
        size_t end = run_end(m, i);
        int prot = 0;
        for (size_t k = i; k < end; k++) {
            prot |= m->list[k].prot;
        }
        for (; i < end; i++) {
            m->list[i].prot = prot;
        }
    }
}

/*
 * Places in the file: neighbours stay neighbours, and what is aligned in memory is aligned there.
 */
static void place(struct maps *m)
{
    uint64_t offset = 0;

    for (size_t i = 0; i < m->n; i++) {
        struct mapping *r = &m->list[i];
        if (!maps_adjoin(m, i)) {
            offset = (offset + HUGE - 1) / HUGE * HUGE + r->start % HUGE;
        }
        r->offset = offset;
        offset += r->end - r->start;
    }
}

static void make_text_huge(const struct maps *m)
{
    for (size_t i = 0; i < m->n;) {
        size_t end = run_end(m, i);
        uintptr_t from = (m->list[i].start + HUGE - 1) / HUGE * HUGE;
        uintptr_t to = m->list[end - 1].end / HUGE * HUGE;
        if ((m->list[i].prot & PROT_EXEC) != 0 && from < to) {
            const long args[6] = {(long)from, (long)(to - from), MADV_COLLAPSE};
            (void)call6(SYS_madvise, args); /* before Linux 6.1, or no huge page is free */
        }
        i = end;
    }
}

int remap_freeze(struct remap_stats *ret)
{
    struct remap_stats stats = {0};

    struct maps *m = maps_read();
    if (m == NULL) {
        return -errno;
    }
    int fd = memfd_create("husk-template", MFD_CLOEXEC);
    int result = fd < 0 ? -errno : maps_read_flags(m);
    if (result < 0) {
        m->n = 0;
    }
    keep_ours(m);
    leave_large_text(m);
    join_text(m);
    place(m);
    for (size_t i = 0; i < m->n; i++) {
        const struct mapping *r = &m->list[i];
        if (!dump_region(fd, r) || !map_region(fd, r)) {
            result = -EIO;
            break;
        }
        stats.regions++;
        stats.bytes += r->end - r->start;
    }
    if (result == 0) {
        make_text_huge(m);
    }
    if (fd >= 0) {
        close(fd);
    }
    maps_free(m);
    *ret = stats;
    return result;
}
