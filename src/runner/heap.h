/* SPDX-License-Identifier: Apache-2.0 */
/* The C library's heap of a zygote. */
#pragma once

/*
 * Allocates every free block for good. What a box allocates then lies side by side at the end of
 * the heap, and not in gaps all over it, each of which is a page to copy in every box.
 */
void heap_fill_holes(void);
