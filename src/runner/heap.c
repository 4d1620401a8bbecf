/* SPDX-License-Identifier: Apache-2.0 */
/* Filling the heap's holes; see heap.h. */
#include "runner/heap.h"

#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define LARGEST ((size_t)64 * 1024) /* far below the size from which malloc() makes a mapping */
#define SMALL ((size_t)1024)
#define STEP ((size_t)16) /* between two sizes of small blocks */

struct taken {
    struct taken *next;
};

static struct taken *taken; /* for good */

#pragma weak mallinfo2 /* since glibc 2.33; without it the holes stay */

/* Where the untouched rest of the heap begins. */
static uintptr_t heap_rest(void)
{
    return (uintptr_t)sbrk(0) - mallinfo2().keepcost;
}

/* Takes blocks of this size until one comes from the rest. */
static void take_all(size_t size)
{
    uintptr_t rest = heap_rest();
    struct taken *block;

    while ((block = malloc(size)) != NULL && (uintptr_t)block < rest) {
        block->next = taken;
        taken = block;
    }
    free(block);
}

void heap_fill_holes(void)
{
    if (mallinfo2 == NULL) {
        return;
    }
    for (size_t size = LARGEST; size > SMALL; size /= 2) {
        take_all(size);
    }
    for (size_t size = SMALL; size >= STEP; size -= STEP) {
        take_all(size - sizeof(size_t)); /* with the allocator's own word in front */
    }
}
