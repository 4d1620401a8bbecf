/* SPDX-License-Identifier: Apache-2.0 */
/* Bounded byte buffer; see buf.h. */
#include "base/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

void buf_release(struct buf *b)
{
    free(b->data);
    b->data = NULL;
    b->len = 0;
    b->cap = 0;
}

int buf_reserve(struct buf *b, size_t more)
{
    size_t need;

    if (__builtin_add_overflow(b->len, more, &need) || need > b->max) {
        return -EMSGSIZE;
    }
    if (need < b->cap) {
        return 0;
    }

    size_t cap = b->cap < 256 ? 256 : b->cap;
    while (cap <= need) {
        if (__builtin_mul_overflow(cap, (size_t)2, &cap)) {
            return -ENOMEM;
        }
    }
    char *data = realloc(b->data, cap);
    if (data == NULL) {
        return -ENOMEM;
    }
    b->data = data;
    b->cap = cap;
    b->data[b->len] = '\0';
    return 0;
}

int buf_add(struct buf *b, const void *p, size_t n)
{
    int r = buf_reserve(b, n);
    if (r < 0) {
        return r;
    }
    if (n > 0) {
        memcpy(b->data + b->len, p, n);
    }
    b->len += n;
    b->data[b->len] = '\0';
    return 0;
}

int buf_add_str(struct buf *b, const char *s)
{
    return buf_add(b, s, strlen(s));
}

int buf_add_utf8(struct buf *b, const char *s, size_t n)
{
    int r = 0;

    for (size_t i = 0; i < n && r == 0;) {
        size_t len = str_utf8_len(s + i, n - i);

        r = len > 0 ? buf_add(b, s + i, len) : buf_add_str(b, "\xef\xbf\xbd");
        i += MAX(len, (size_t)1);
    }
    return r;
}

int buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0) {
        return -EINVAL;
    }

    int r = buf_reserve(b, (size_t)n);
    if (r < 0) {
        return r;
    }
    va_start(ap, fmt);
    vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->len += (size_t)n;
    return 0;
}

void buf_consume(struct buf *b, size_t n)
{
    if (n >= b->len) {
        b->len = 0;
    } else {
        memmove(b->data, b->data + n, b->len - n);
        b->len -= n;
    }
    if (b->data != NULL) {
        b->data[b->len] = '\0';
    }
}
