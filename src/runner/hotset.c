/* SPDX-License-Identifier: Apache-2.0 */
/* The hot set; see hotset.h. Like all zygote code it must not allocate. */
#include "runner/hotset.h"

#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "runner/maps.h"
#include "runner/pagewise.h"
#include "runner/rawfork.h"

#ifndef MADV_POPULATE_WRITE
#    define MADV_POPULATE_WRITE 23
#endif
#ifndef PIDFD_SELF
#    define PIDFD_SELF (-10000)
#endif
#ifndef SYS_process_madvise
#    define SYS_process_madvise 440
#endif

#define RANGES_MAX 2048
#define PAGE 4096u
#define HUGE_PAGES 512
#define PAGEMAP_PRESENT ((uint64_t)1 << 63)
#define PAGEMAP_FILE ((uint64_t)1 << 61)
#define PAGEMAP_OURS ((uint64_t)1 << 56) /* mapped only here: in a fork, a copy of its own */

struct pages {
    size_t n;
    struct iovec ranges[RANGES_MAX]; /* as the kernel takes them, by address */
};

struct hotset {
    struct pages written;
    struct pages read;
};

static struct hotset hot;        /* private: boxes inherit it and cannot change each other's */
static struct hotset *rehearsal; /* shared with the child that fills it in */
static bool is_pagewise;         /* in that child */

static void add_page(struct pages *to, uintptr_t at)
{
    struct iovec *last = to->n > 0 ? &to->ranges[to->n - 1] : NULL;
    char *page = (char *)at; /* NOLINT(performance-no-int-to-ptr) */

    if (last != NULL && page == (char *)last->iov_base + last->iov_len) {
        last->iov_len += PAGE;
    } else if (to->n < RANGES_MAX) {
        to->ranges[to->n++] = (struct iovec){.iov_base = page, .iov_len = PAGE};
    }
}

static bool is_huge(const uint64_t *entries, size_t n)
{
    size_t present = 0;

    for (size_t i = 0; i < n; i++) {
        present += (entries[i] & PAGEMAP_PRESENT) != 0;
    }
    return present == HUGE_PAGES;
}

/* Which pages of one mapping are there, and which of them are our own copies already. */
static void scan_mapping(int pagemap, const struct mapping *m)
{
    uint64_t entries[HUGE_PAGES];

    for (uintptr_t at = m->start; at < m->end;) {
        size_t want = MIN((m->end - at) / PAGE, HUGE_PAGES - at / PAGE % HUGE_PAGES);
        ssize_t n = pread(pagemap, entries, want * sizeof(entries[0]),
                          (off_t)(at / PAGE * sizeof(entries[0])));
        if (n != (ssize_t)(want * sizeof(entries[0]))) {
            return;
        }
        bool huge = is_huge(entries, want);
        for (size_t i = 0; i < want; i++, at += PAGE) {
            if ((entries[i] & PAGEMAP_PRESENT) == 0 || huge) {
                continue; /* a huge page comes by one fault and is not inherited */
            }
            if ((entries[i] & PAGEMAP_FILE) != 0) {
                add_page(&rehearsal->read, at);
            } else if ((entries[i] & PAGEMAP_OURS) != 0) {
                add_page(&rehearsal->written, at);
            }
        }
    }
}

void hotset_save(void)
{
    int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    struct maps *m = maps_read();

    for (size_t i = 0; m != NULL && i < m->n; i++) {
        if (m->list[i].is_private && !m->list[i].is_kernel) {
            scan_mapping(pagemap, &m->list[i]);
        }
    }
    if (!is_pagewise) {
        rehearsal->read.n = 0; /* the kernel mapped most of them around a fault; few are needed */
    }
    _exit(0);
}

/* A write that changes nothing: one fault, where a read and a write would be two. */
static void touch(volatile char *at)
{
    (void)__atomic_fetch_or(at, 0, __ATOMIC_RELAXED);
}

/*
 * A fork copies the page table of a private mapping only if something in it has been written.
 * Writes what is there already; text becomes writable for a moment.
 */
static void make_inherited(const struct mapping *m, volatile char *at)
{
    void *start = (void *)m->start; /* NOLINT(performance-no-int-to-ptr) */
    size_t n = m->end - m->start;

    if ((m->prot & PROT_WRITE) == 0 && mprotect(start, n, m->prot | PROT_WRITE) < 0) {
        return; /* a policy of the host forbids it: each box faults these pages in */
    }
    touch(at);
    if ((m->prot & PROT_WRITE) == 0 && mprotect(start, n, m->prot) < 0) {
        _exit(1);
    }
}

/* In the zygote: maps what boxes will read, where they inherit it. */
static void map_read_pages(const struct maps *m)
{
    size_t i = 0;
    size_t inherited = MAPS_MAX;

    for (size_t k = 0; k < hot.read.n; k++) {
        volatile char *page = hot.read.ranges[k].iov_base;
        while (i < m->n && m->list[i].end <= (uintptr_t)page) {
            i++;
        }
        if (i == m->n) {
            break;
        }
        if (i != inherited) {
            make_inherited(&m->list[i], page);
            inherited = i;
        }
        for (size_t at = 0; at < hot.read.ranges[k].iov_len; at += PAGE) {
            (void)page[at];
        }
    }
}

/*
 * Only pages that the zygote has too, with the same rights: the rehearsal may have mapped memory of
 * its own, which a box does not have.
 */
static void keep_pages(struct pages *to, const struct pages *from, const struct maps *m, int prot)
{
    size_t i = 0;

    for (size_t k = 0; k < from->n; k++) {
        uintptr_t at = (uintptr_t)from->ranges[k].iov_base;
        for (uintptr_t end = at + from->ranges[k].iov_len; at < end; at += PAGE) {
            while (i < m->n && m->list[i].end <= at) {
                i++;
            }
            if (i < m->n && m->list[i].start <= at && m->list[i].is_private &&
                (m->list[i].prot & prot) == prot) {
                add_page(to, at);
            }
        }
    }
}

static void keep_rehearsal(void)
{
    struct maps *m = maps_read();

    if (m != NULL) {
        keep_pages(&hot.written, &rehearsal->written, m, PROT_READ | PROT_WRITE);
        keep_pages(&hot.read, &rehearsal->read, m, PROT_READ);
        map_read_pages(m);
    }
    maps_free(m);
}

bool hotset_rehearse(void)
{
    rehearsal =
        mmap(NULL, sizeof(*rehearsal), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (rehearsal == MAP_FAILED) {
        return false;
    }
    pid_t pid = rawfork_plain();
    if (pid == 0) {
        is_pagewise = pagewise_begin() >= 0;
        return true;
    }
    if (pid > 0) {
        (void)waitpid(pid, NULL, 0);
        keep_rehearsal();
    }
    munmap(rehearsal, sizeof(*rehearsal));
    return false;
}

static void touch_each(const struct pages *p)
{
    for (size_t i = 0; i < p->n; i++) {
        volatile char *page = p->ranges[i].iov_base;
        for (size_t at = 0; at < p->ranges[i].iov_len; at += PAGE) {
            touch(&page[at]);
        }
    }
}

void hotset_touch(void)
{
    const struct pages *p = &hot.written;

    for (size_t i = 0; i < p->n; i += IOV_MAX) {
        size_t n = MIN(p->n - i, IOV_MAX);
        if (syscall(SYS_process_madvise, PIDFD_SELF, p->ranges + i, n, MADV_POPULATE_WRITE, 0) <
            0) {
            touch_each(p); /* before Linux 6.15 */
            return;
        }
    }
}
