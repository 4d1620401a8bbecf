/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of http/chunked.h: good and bad bodies at every split. */
#include "http/chunked.h"

#include <string.h>

#include "base/attr.h"
#include "base/buf.h"
#include "tap.h"

/* Decodes in pieces of step bytes. *ret_used: how many bytes of the text belong to the body. */
static enum http_chunked_step decode(const char *text, size_t step, struct buf *out,
                                     size_t *ret_used)
{
    struct http_chunked c = {0};
    size_t n = strlen(text);
    size_t at = 0;
    size_t end = MIN(step, n);
    enum http_chunked_step r = HTTP_CHUNKED_MORE;

    while (r == HTTP_CHUNKED_MORE || r == HTTP_CHUNKED_PIECE) {
        const char *data = NULL;
        size_t len = 0;
        size_t used = 0;
        r = http_chunked_next(&c, text + at, end - at, &used, &data, &len);
        at += used;
        if (r == HTTP_CHUNKED_PIECE) {
            CHECK(len > 0);
            CHECK_INT(buf_add(out, data, len), 0);
        } else if (r == HTTP_CHUNKED_MORE) {
            CHECK_INT(at, end);
            if (end == n) {
                break;
            }
            end = MIN(end + step, n);
        }
    }
    *ret_used = at;
    return r;
}

TEST(good_bodies)
{
    static const struct {
        const char *text;
        const char *body;
        size_t rest;
    } rows[] = {
        {"0\r\n\r\n", "", 0},
        {"5\r\nhello\r\n0\r\n\r\n", "hello", 0},
        {"1\r\na\r\nA\r\n0123456789\r\n0\r\n\r\n", "a0123456789", 0},
        {"a\r\n\r\n\r\n\r\n\r\n\r\n\r\n0\r\n\r\n", "\r\n\r\n\r\n\r\n\r\n", 0},
        {"0005\r\nhello\r\n000\r\n\r\n", "hello", 0},
        {"000000000000001\r\nx\r\n0\r\n\r\n", "x", 0},
        {"0\r\n\r\nGET / HTTP/1.1\r\n", "", 16},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        for (size_t step = 1; step <= strlen(rows[i].text); step++) {
            AUTO_BUF struct buf out = BUF_INIT(1000);
            size_t used;
            CASE("row %zu by %zu", i, step);
            CHECK_INT(decode(rows[i].text, step, &out, &used), HTTP_CHUNKED_END);
            CHECK_STR(out.data != NULL ? out.data : "", rows[i].body);
            CHECK_INT(used, strlen(rows[i].text) - rows[i].rest);
        }
    }
}

TEST(bad_bodies)
{
    static const char *const rows[] = {
        "\r\n",
        "x\r\n",
        " 5\r\nhello\r\n",
        "5 \r\nhello\r\n",
        "5\nhello",
        "5;a=b\r\nhello",
        "-5\r\n",
        "+5\r\n",
        "0x5\r\nhello",
        "5\r\nhello0",
        "5\r\nhello\n",
        "5\r\nhelloo\r\n",
        "5\rhello",
        "0\r\nX: y\r\n",
        "0\r\n\n",
        "0\n",
        "1000000000000000\r\n",
        "ffffffffffffffff\r\n",
        "10000000000000001\r\n",
        "0000000000000005\r\nhello",
        "5,5\r\nhello",
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        for (size_t step = 1; step <= strlen(rows[i]); step++) {
            AUTO_BUF struct buf out = BUF_INIT(1000);
            size_t used;
            CASE("%s by %zu", rows[i], step);
            CHECK_INT(decode(rows[i], step, &out, &used), HTTP_CHUNKED_BAD);
        }
    }
}

TEST(unfinished_bodies_want_more)
{
    static const char whole[] = "3\r\nabc\r\n0\r\n\r\n";

    for (size_t n = 0; n + 1 < sizeof(whole); n++) {
        AUTO_BUF struct buf out = BUF_INIT(1000);
        char part[sizeof(whole)] = {0};
        size_t used;
        memcpy(part, whole, n);
        CASE("%zu bytes", n);
        CHECK_INT(decode(part, 2, &out, &used), HTTP_CHUNKED_MORE);
    }
}

TEST(largest_chunk_is_counted_right)
{
    struct http_chunked c = {0};
    const char *data;
    size_t len;
    size_t used;

    CHECK_INT(http_chunked_next(&c, "fffffffffffffff\r\nab", 19, &used, &data, &len),
              HTTP_CHUNKED_PIECE);
    CHECK_INT(len, 2);
    CHECK_INT(c.left, 0xfffffffffffffffLL - 2);
}
