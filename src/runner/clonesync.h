/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Synchronises a zygote with the child that it has just cloned, through one word of shared memory
 * per box: far cheaper than a pipe. The child unmaps that memory before user code runs, or boxes
 * could communicate with each other and with the zygote.
 */
#pragma once

#include <stddef.h>

int clonesync_open(size_t boxes); /* once, in the zygote; 0 or -errno */
void clonesync_begin(
    size_t slot); /* before the clone: clears the word. The slot's last box is gone */

/* The child has a table of descriptors of its own: the parent may close what it sent. */
void clonesync_say_left(void);
void clonesync_await_left(int pidfd); /* or until the child is dead */

/* The child's id maps are written. */
void clonesync_say_mapped(void);
void clonesync_await_mapped(void); /* in the child, which then unmaps the memory */
