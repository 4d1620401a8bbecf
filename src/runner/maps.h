/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mappings of this process, read without touching its own memory: code that replaces or watches
 * mappings must not change them by reading the list.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAPS_MAX 2048
#define MAPS_TEXT_MAX ((size_t)512 * 1024)

struct mapping {
    uintptr_t start;
    uintptr_t end;
    uint64_t offset; /* free for the reader's use */
    int prot;
    bool is_private;
    bool is_stack;
    bool is_kernel;    /* its own pages in our memory: vdso and the like */
    bool is_kept_back; /* a child gets it empty or not at all; known after maps_read_flags() */
};

struct maps {
    /* by address; a process with more of them keeps the rest as they are */
    struct mapping list[MAPS_MAX];
    size_t n;
    char text[MAPS_TEXT_MAX];
};

/* In shared memory of its own, which shows up as a shared mapping. NULL: errno says why. */
struct maps *maps_read(void);
void maps_free(struct maps *m);

/* Adds the flags that the list does not have. Nothing may have been mapped since. 0 or -errno. */
int maps_read_flags(struct maps *m);

/* True if mapping i begins where the one before it ends. */
bool maps_adjoin(const struct maps *m, size_t i);
