/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of api/files/gzip.h: round trips through pieces of every awkward size, and damaged data.
 */
#include "api/files/gzip.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "tap.h"

#define STREAM_MAX ((size_t)8 << 20)
#define SAMPLE 300000

struct source {
    const char *data;
    size_t len;
    size_t piece;
    int fails_with; /* at the end; 0: it just ends */
};

static ssize_t next(void *user, void *buf, size_t size)
{
    struct source *s = user;
    size_t n = MIN(MIN(size, s->piece), s->len);

    if (n == 0) {
        return s->fails_with;
    }
    memcpy(buf, s->data, n);
    s->data += n;
    s->len -= n;
    return (ssize_t)n;
}

static int keep(void *user, const void *data, size_t n)
{
    return buf_add(user, data, n);
}

static int refuse(void *user, const void *data, size_t n)
{
    return -7;
}

/* Half noise, half the same byte. */
static const char *sample(void)
{
    static char data[SAMPLE];
    uint32_t x = 1;

    for (size_t i = 0; i < sizeof(data); i++) {
        x = x * 1664525 + 1013904223;
        data[i] = i < sizeof(data) / 2 ? (char)(x >> 24) : 'a';
    }
    return data;
}

static void pack(const char *data, size_t len, size_t piece, struct buf *ret)
{
    struct gzip_writer *g = gzip_writer_new(keep, ret);

    for (size_t i = 0; i < len; i += piece) {
        CHECK_INT(gzip_write(g, data + i, MIN(piece, len - i)), 0);
    }
    CHECK_INT(gzip_write_end(g), 0);
    gzip_writer_free(g);
}

/* What gzip_read() ends with: 0 or -errno. */
static ssize_t unpack(struct source s, size_t piece, struct buf *ret)
{
    static char chunk[65536];
    struct gzip_reader *g = gzip_reader_new(next, &s);
    ssize_t n;

    while ((n = gzip_read(g, chunk, piece)) > 0) {
        CHECK_INT(buf_add(ret, chunk, (size_t)n), 0);
    }
    gzip_reader_free(g);
    return n;
}

TEST(round_trips)
{
    static const struct {
        size_t len, in, out;
    } rows[] = {{0, 100, 100},      {1, 1, 1},          {SAMPLE, 65536, 65536}, {SAMPLE, 1, 65536},
                {SAMPLE, 65536, 1}, {SAMPLE, 777, 333}, {SAMPLE, 65536, 7777}};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_BUF struct buf packed = BUF_INIT(STREAM_MAX);
        AUTO_BUF struct buf plain = BUF_INIT(STREAM_MAX);
        CASE("%zu bytes, read by %zu into %zu", rows[i].len, rows[i].in, rows[i].out);
        pack(sample(), rows[i].len, 65536, &packed);
        struct source s = {.data = packed.data, .len = packed.len, .piece = rows[i].in};
        CHECK_INT(unpack(s, rows[i].out, &plain), 0);
        CHECK_INT(plain.len, rows[i].len);
        CHECK(plain.len == 0 || memcmp(plain.data, sample(), plain.len) == 0);
    }
}

TEST(damage_is_noticed)
{
    AUTO_BUF struct buf packed = BUF_INIT(STREAM_MAX);
    AUTO_BUF struct buf plain = BUF_INIT(STREAM_MAX);

    pack(sample(), SAMPLE, SAMPLE, &packed);
    const struct {
        const char *what;
        struct source source;
        int want;
    } rows[] = {
        {"cut off by a byte", {packed.data, packed.len - 1, 4096, 0}, -EBADMSG},
        {"cut off in the head", {packed.data, 5, 4096, 0}, -EBADMSG},
        {"nothing at all", {packed.data, 0, 4096, 0}, -EBADMSG},
        {"not gzip", {"plain text, no gzip", 19, 4096, 0}, -EBADMSG},
        {"the source fails", {packed.data, 40, 4096, -ECONNRESET}, -ECONNRESET},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("%s", rows[i].what);
        CHECK_INT(unpack(rows[i].source, 4096, &plain), rows[i].want);
        plain.len = 0;
    }
    CASE("a wrong byte");
    packed.data[packed.len / 2] ^= 0x55;
    struct source s = {.data = packed.data, .len = packed.len, .piece = 4096};
    CHECK_INT(unpack(s, 4096, &plain), -EBADMSG);
}

TEST(members_one_behind_the_other_are_one_stream)
{
    AUTO_BUF struct buf packed = BUF_INIT(STREAM_MAX);
    AUTO_BUF struct buf plain = BUF_INIT(STREAM_MAX);

    pack("one,", 4, 4, &packed);
    pack("two", 3, 3, &packed);
    struct source s = {.data = packed.data, .len = packed.len, .piece = 1};
    CHECK_INT(unpack(s, 2, &plain), 0);
    CHECK_STR(plain.data, "one,two");
    CHECK_INT(buf_add_str(&packed, "rubbish"), 0);
    s = (struct source){.data = packed.data, .len = packed.len, .piece = 4096};
    CHECK_INT(unpack(s, 4096, &plain), -EBADMSG);
}

TEST(a_sink_that_gives_up_ends_it)
{
    struct gzip_writer *g = gzip_writer_new(refuse, NULL);

    CHECK_INT(gzip_write(g, sample(), SAMPLE), -7);
    gzip_writer_free(g);
}
