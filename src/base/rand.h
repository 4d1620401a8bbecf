/* SPDX-License-Identifier: Apache-2.0 */
/* Random bytes from the kernel. Never fails: a host without getrandom() is not supported. */
#pragma once

#include <stddef.h>

void rand_bytes(void *p, size_t n);
void rand_hex(char *dst, size_t size); /* fills size-1 lower-case hex digits and a NUL */
