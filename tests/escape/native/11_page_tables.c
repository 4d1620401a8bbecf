/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One page read every 2 MiB over a huge area: hardly any memory, but a page table for each.
 *
 * technique: R2
 * held: page tables count, so the run ends as memory_exceeded with its peak at the limit
 * expect: status=memory_exceeded exit=137 peak_mb<=65
 * cause: oom
 * limits: --memory 64M --timeout 9
 */
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>

#define STEP ((size_t)2 << 20)
#define AREA ((size_t)64 << 30)
#define AREAS 16

int main(void)
{
    unsigned sum = 0;

    for (int i = 0; i < AREAS; i++) {
        unsigned char *area =
            mmap(NULL, AREA, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (area == MAP_FAILED) {
            puts("no address space");
            return 2;
        }
        for (size_t at = 0; at < AREA; at += STEP)
            sum += area[at];
    }
    printf("ESCAPED: the page tables of %d areas were free of charge (%u)\n", AREAS, sum);
    return 1;
}
