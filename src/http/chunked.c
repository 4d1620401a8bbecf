/* SPDX-License-Identifier: Apache-2.0 */
/* Chunked bodies; see chunked.h. */
#include "http/chunked.h"

#include "base/attr.h"
#include "http/field.h"

#define DIGITS_MAX 15 /* cannot overflow 64 bits, not even when sizes are added up */

/* Takes one byte of the size line. */
static int take_size(struct http_chunked *c, char byte)
{
    int digit = http_hex_digit(byte);

    if (digit >= 0) {
        c->left = c->left * 16 + (uint64_t)digit;
        return ++c->digits > DIGITS_MAX ? -1 : 0;
    }
    c->state = HTTP_CHUNKED_SIZE_LF;
    return byte == '\r' && c->digits > 0 ? 0 : -1;
}

static int take_exact(struct http_chunked *c, char byte, char want, enum http_chunked_state next)
{
    c->state = next;
    return byte == want ? 0 : -1;
}

/* Takes one byte that is not part of the body. */
static int take_byte(struct http_chunked *c, char byte)
{
    switch (c->state) {
    case HTTP_CHUNKED_SIZE:
        return take_size(c, byte);
    case HTTP_CHUNKED_SIZE_LF:
        return take_exact(c, byte, '\n', c->left > 0 ? HTTP_CHUNKED_DATA : HTTP_CHUNKED_LAST_CR);
    case HTTP_CHUNKED_DATA_CR:
        return take_exact(c, byte, '\r', HTTP_CHUNKED_DATA_LF);
    case HTTP_CHUNKED_DATA_LF:
        c->digits = 0;
        return take_exact(c, byte, '\n', HTTP_CHUNKED_SIZE);
    case HTTP_CHUNKED_LAST_CR:
        return take_exact(c, byte, '\r', HTTP_CHUNKED_LAST_LF);
    case HTTP_CHUNKED_LAST_LF:
        return take_exact(c, byte, '\n', HTTP_CHUNKED_DONE);
    case HTTP_CHUNKED_DATA:
    case HTTP_CHUNKED_DONE:
        break;
    }
    return -1;
}

enum http_chunked_step http_chunked_next(struct http_chunked *c, const char *in, size_t n,
                                         size_t *ret_used, const char **ret_data, size_t *ret_len)
{
    size_t i = 0;

    while (c->state != HTTP_CHUNKED_DONE && i < n) {
        if (c->state == HTTP_CHUNKED_DATA) {
            size_t len = (size_t)MIN(c->left, (uint64_t)(n - i));
            c->left -= len;
            if (c->left == 0) {
                c->state = HTTP_CHUNKED_DATA_CR;
            }
            *ret_data = in + i;
            *ret_len = len;
            *ret_used = i + len;
            return HTTP_CHUNKED_PIECE;
        }
        if (take_byte(c, in[i++]) < 0) {
            *ret_used = i;
            return HTTP_CHUNKED_BAD;
        }
    }
    *ret_used = i;
    return c->state == HTTP_CHUNKED_DONE ? HTTP_CHUNKED_END : HTTP_CHUNKED_MORE;
}
