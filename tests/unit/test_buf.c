/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of base/buf.h: growth, the maximum, and the NUL behind the bytes. */
#include "base/buf.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "tap.h"

TEST(empty_buffer_has_no_memory)
{
    AUTO_BUF struct buf b = BUF_INIT(10);

    CHECK(b.data == NULL);
    CHECK_INT(b.len, 0);
    buf_consume(&b, 5);
    CHECK_INT(b.len, 0);
}

TEST(add_appends_and_terminates)
{
    AUTO_BUF struct buf b = BUF_INIT(100);

    CHECK_INT(buf_add(&b, "ab\0c", 4), 0);
    CHECK_INT(b.len, 4);
    CHECK_INT(memcmp(b.data, "ab\0c", 5), 0);
    CHECK_INT(buf_add_str(&b, "de"), 0);
    CHECK_INT(b.len, 6);
    CHECK_STR(b.data + 3, "cde");
    CHECK_INT(buf_add(&b, NULL, 0), 0);
    CHECK_INT(b.len, 6);
}

TEST(maximum_is_reachable_and_never_passed)
{
    AUTO_BUF struct buf b = BUF_INIT(5);

    CHECK_INT(buf_add_str(&b, "12345"), 0);
    CHECK_INT(buf_add_str(&b, "6"), -EMSGSIZE);
    CHECK_INT(buf_printf(&b, "%d", 6), -EMSGSIZE);
    CHECK_INT(buf_reserve(&b, 1), -EMSGSIZE);
    CHECK_STR(b.data, "12345");
    CHECK_INT(buf_reserve(&b, SIZE_MAX), -EMSGSIZE);

    buf_consume(&b, 1);
    CHECK_INT(buf_add_str(&b, "6"), 0);
    CHECK_STR(b.data, "23456");
}

TEST(reserve_reports_lack_of_memory)
{
    AUTO_BUF struct buf b = BUF_INIT(SIZE_MAX);

    CHECK_INT(buf_add_str(&b, "x"), 0);
    CHECK_INT(buf_reserve(&b, SIZE_MAX / 2 + 1), -ENOMEM);
    CHECK_STR(b.data, "x");
}

TEST(grows_over_many_additions)
{
    AUTO_BUF struct buf b = BUF_INIT(100000);

    for (int i = 0; i < 10000; i++) {
        CHECK_INT(buf_printf(&b, "%04d", i), 0);
        CHECK_INT(b.len, 4 * (i + 1));
        CHECK_INT(strlen(b.data), b.len);
    }
    CHECK_INT(strncmp(b.data + 4L * 1234, "12341235", 8), 0);
}

TEST(capacity_always_has_room_for_the_end)
{
    AUTO_BUF struct buf b = BUF_INIT(5000);

    for (size_t i = 0; i < b.max; i++) {
        CHECK_INT(buf_add(&b, "x", 1), 0);
        CHECK(b.cap > b.len);
    }
}

TEST(consume_drops_the_front)
{
    static const struct {
        size_t n;
        const char *want;
    } rows[] = {{0, "abcdef"}, {1, "bcdef"}, {5, "f"}, {6, ""}, {7, ""}, {SIZE_MAX, ""}};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_BUF struct buf b = BUF_INIT(10);

        CASE("consume %zu", rows[i].n);
        CHECK_INT(buf_add_str(&b, "abcdef"), 0);
        buf_consume(&b, rows[i].n);
        CHECK_STR(b.data, rows[i].want);
        CHECK_INT(b.len, strlen(rows[i].want));
    }
}

TEST(release_empties_and_keeps_the_maximum)
{
    struct buf b = BUF_INIT(3);

    CHECK_INT(buf_add_str(&b, "abc"), 0);
    buf_release(&b);
    CHECK(b.data == NULL);
    CHECK_INT(b.len, 0);
    CHECK_INT(buf_add_str(&b, "abcd"), -EMSGSIZE);
    CHECK_INT(buf_add_str(&b, "abc"), 0);
    buf_release(&b);
    buf_release(&b);
}

TEST(bytes_that_are_no_text_are_replaced_one_by_one)
{
    static const struct {
        const char *bytes;
        size_t n;
        const char *want;
    } rows[] = {
        {"", 0, ""},
        {"a\xc3\xa4", 3, "a\xc3\xa4"},
        {"\xff\xc3", 2, "\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xc3\xa4", 1, "\xef\xbf\xbd"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_BUF struct buf b = BUF_INIT(6);

        CASE("row %zu", i);
        CHECK_INT(buf_add_utf8(&b, rows[i].bytes, rows[i].n), 0);
        CHECK_STR(b.data != NULL ? b.data : "", rows[i].want);
    }
    AUTO_BUF struct buf small = BUF_INIT(5);
    CHECK_INT(buf_add_utf8(&small, "\xff\xff", 2), -EMSGSIZE);
}
