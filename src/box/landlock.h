/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Landlock layer: a second check of what may be written, besides the mounts.
 *
 * Read and execute everywhere in the box's root, write only where the caller says. Abstract sockets
 * and signals stay inside where the kernel can scope them (ABI 6). Async-signal-safe.
 */
#pragma once

#include <stddef.h>

#include "base/err.h"

/* Best ABI of this kernel, 0 when Landlock is absent or switched off. */
int landlock_abi(void);

/* Needs no_new_privs. Every path must exist. With abi 0 it does nothing. */
int landlock_confine(int abi, const char *const *writable, size_t n, struct err *e);
