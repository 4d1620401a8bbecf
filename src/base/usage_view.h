/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the descriptors of a box's counters mean. The launcher sends it with them to the owner of
 * the box, which can then read the kernel's numbers without asking. Filled and read by
 * box/cgroup_view.c; opaque to all other code.
 */
#pragma once

#include <stdint.h>

#define USAGE_VIEW_FDS 6
#define USAGE_VIEW_BASE 8

struct usage_view {
    uint32_t n; /* descriptors; 0: nothing can be read, ask the launcher */
    struct {
        uint8_t resource;
        uint8_t file;
        uint8_t unified;
        uint8_t zero;
    } items[USAGE_VIEW_FDS];
    uint64_t base[USAGE_VIEW_BASE]; /* counters when the box began */
};
