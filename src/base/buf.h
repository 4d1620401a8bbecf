/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A byte buffer that grows up to a maximum given at creation.
 *
 * The buffer owns its bytes. data is NUL-terminated whenever it is not NULL (the NUL is not
 * counted), so that text in it can be used as a string. Functions return 0 or -errno; -EMSGSIZE at
 * the maximum.
 */
#pragma once

#include <stddef.h>

#include "base/attr.h"

struct buf {
    char *data; /* NULL until the first byte */
    size_t len;
    size_t cap;
    size_t max; /* len never exceeds this */
};

#define BUF_INIT(maximum) ((struct buf){.max = (maximum)})
#define AUTO_BUF AUTO(buf_release)

void buf_release(struct buf *b);                     /* frees; keeps the maximum */
int buf_reserve(struct buf *b, size_t more);         /* room for that many more bytes */
int buf_add(struct buf *b, const void *p, size_t n); /* all of it or nothing */
int buf_add_str(struct buf *b, const char *s);
int buf_add_utf8(struct buf *b, const char *s, size_t n); /* U+FFFD for a byte that is no UTF-8 */
int buf_printf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
void buf_consume(struct buf *b, size_t n); /* drops n bytes at the front */
