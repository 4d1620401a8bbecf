/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the kernel bring in memory one page at a time.
 *
 * When a page of a file is read for the first time, Linux maps the fifteen around it as well. For
 * frozen memory (remap.h) most of these are never used, and each is mapped and unmapped in every
 * box.
 */
#pragma once

/*
 * For all memory that this process has mapped privately, until the descriptor that is returned is
 * closed; a fork does not inherit it. -1 where the kernel has no userfaultfd with write
 * protection: everything works, more slowly.
 */
int pagewise_begin(void);
