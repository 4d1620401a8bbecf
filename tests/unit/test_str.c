/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of base/str.h: fixed arrays, names, UTF-8 and text made safe to show. */
#include "base/str.h"

#include <errno.h>
#include <string.h>

#include "tap.h"

TEST(copy_is_whole_or_empty)
{
    static const struct {
        const char *src;
        size_t size;
        int want;
    } rows[] = {{"", 1, 0},         {"abc", 4, 0},      {"abc", 8, 0},
                {"abc", 3, -E2BIG}, {"abc", 1, -E2BIG}, {"", 0, -E2BIG}};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char copy[8] = "#######";
        char format[8] = "#######";

        CASE("\"%s\" into %zu", rows[i].src, rows[i].size);
        CHECK_INT(str_copy(copy, rows[i].size, rows[i].src), rows[i].want);
        CHECK_INT(str_format(format, rows[i].size, "%s", rows[i].src), rows[i].want);
        CHECK_INT(memcmp(copy + rows[i].size, "########", 7 - MIN(rows[i].size, 7u)), 0);
        if (rows[i].size == 0) {
            CHECK_STR(copy, "#######");
            CHECK_STR(format, "#######");
        } else {
            CHECK_STR(copy, rows[i].want == 0 ? rows[i].src : "");
            CHECK_STR(format, rows[i].want == 0 ? rows[i].src : "");
        }
    }
}

TEST(format_formats)
{
    char text[16];

    CHECK_INT(str_format(text, sizeof(text), "%s-%03d", "box", 7), 0);
    CHECK_STR(text, "box-007");
}

TEST(equality_and_prefix)
{
    static const struct {
        const char *a;
        const char *b;
        bool eq;
        bool starts;
    } rows[] = {
        {"", "", true, true},         {"a", "", false, true},       {"", "a", false, false},
        {"abc", "abc", true, true},   {"abc", "ab", false, true},   {"ab", "abc", false, false},
        {"abc", "abd", false, false}, {"Abc", "abc", false, false},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("\"%s\" and \"%s\"", rows[i].a, rows[i].b);
        CHECK_INT(str_eq(rows[i].a, rows[i].b), rows[i].eq);
        CHECK_INT(str_starts(rows[i].a, rows[i].b), rows[i].starts);
    }
}

TEST(terminated_looks_only_inside_the_array)
{
    const char text[4] = {'a', 'b', '\0', 'c'};

    CHECK(!str_is_terminated(text, 0));
    CHECK(!str_is_terminated(text, 2));
    CHECK(str_is_terminated(text, 3));
    CHECK(str_is_terminated(text, 4));
}

TEST(names)
{
    static const struct {
        const char *name;
        bool want;
    } rows[] = {
        {"a", true},
        {"0", true},
        {"python-3.11_x", true},
        {"a..b", true},
        {"", false},
        {".", false},
        {"..", false},
        {"-rf", false},
        {"_a", false},
        {"A", false},
        {"a/b", false},
        {"a b", false},
        {"a\n", false},
        {"\xc3\xa4", false},
        {"../etc", false},
        {".hidden", false},
        {"123456789012345678901234567890123456789012345678901234567890123", true},
        {"1234567890123456789012345678901234567890123456789012345678901234", false},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("\"%s\"", rows[i].name);
        CHECK_INT(str_is_name(rows[i].name), rows[i].want);
    }
}

TEST(utf8_lengths)
{
    static const struct {
        const char *bytes;
        size_t n;
        size_t want;
    } rows[] = {
        {"", 0, 0},
        {"a", 1, 1},
        {"\0", 1, 1},
        {"\x7f", 1, 1},
        {"\x80", 1, 0},             /* continuation without a start */
        {"\xc1\xbf", 2, 0},         /* overlong */
        {"\xc2\x80", 2, 2},         /* first of two bytes */
        {"\xc2\x80", 1, 0},         /* cut off */
        {"\xdf\xbf", 2, 2},         /* last of two bytes */
        {"\xc3(", 2, 0},            /* no continuation */
        {"\xe0\x9f\xbf", 3, 0},     /* overlong */
        {"\xe0\xa0\x80", 3, 3},     /* first of three bytes */
        {"\xe2\x82\xac", 2, 0},     /* cut off */
        {"\xed\x9f\xbf", 3, 3},     /* last before the surrogates */
        {"\xed\xa0\x80", 3, 0},     /* surrogate */
        {"\xee\x80\x80", 3, 3},     /* first after them */
        {"\xef\xbf\xbf", 3, 3},     /* last of three bytes */
        {"\xf0\x8f\xbf\xbf", 4, 0}, /* overlong */
        {"\xf0\x90\x80\x80", 4, 4}, /* first of four bytes */
        {"\xf0\x9f\x98\x80", 3, 0}, /* cut off */
        {"\xf4\x8f\xbf\xbf", 4, 4}, /* U+10FFFF */
        {"\xf4\x90\x80\x80", 4, 0}, /* beyond it */
        {"\xf5\x80\x80\x80", 4, 0},
        {"\xff", 1, 0},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("row %zu", i);
        CHECK_INT(str_utf8_len(rows[i].bytes, rows[i].n), rows[i].want);
    }
}

TEST(utf8_is_all_of_it_or_none)
{
    static const struct {
        const char *bytes;
        size_t n;
        bool want;
    } rows[] = {
        {"", 0, true},
        {"a\0b", 3, true},
        {"\xc3\xa4\xe2\x82\xac\xf4\x8f\xbf\xbf", 9, true}, /* up to U+10FFFF */
        {"\xff", 0, true},                                 /* is not looked at */
        {"xy\xe2\x82\xac", 4, false},                      /* cut off at the end */
        {"\x80xy", 3, false},
        {"xy\xff", 3, false},
        {"x\xc0\xafx", 4, false},         /* overlong */
        {"x\xed\xa0\x80x", 5, false},     /* surrogate */
        {"x\xf4\x90\x80\x80x", 6, false}, /* beyond U+10FFFF */
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("row %zu", i);
        CHECK_INT(str_is_utf8(rows[i].bytes, rows[i].n), rows[i].want);
    }
}

TEST(printable_shows_what_drives_a_terminal)
{
    static const struct {
        const char *src;
        size_t n;
        const char *want;
    } rows[] = {
        {"plain\n\ttext", 11, "plain\n\ttext"},
        {"\x1b[31m", 5, "\\x1b[31m"},
        {"a\0b", 3, "a\\x00b"},
        {"\r\x7f", 2, "\\x0d\\x7f"},
        {"\xc2\x9b", 2, "\\xc2\\x9b"},               /* CSI as one C1 character */
        {"\xc2\xa0\xc3\xa4", 4, "\xc2\xa0\xc3\xa4"}, /* first after C1; a-umlaut */
        {"\xff\xe2\x82", 3, "\\xff\\xe2\\x82"},      /* not UTF-8 */
        {"\xf0\x9f\x98\x80", 4, "\xf0\x9f\x98\x80"},
        {"ab", 1, "a"},
        {"", 0, ""},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char got[64];

        CASE("row %zu", i);
        str_printable(got, sizeof(got), rows[i].src, rows[i].n);
        CHECK_STR(got, rows[i].want);
    }
}

TEST(printable_cuts_between_characters)
{
    static const struct {
        const char *src;
        size_t size;
        const char *want;
    } rows[] = {
        {"abc", 4, "abc"},
        {"abc", 3, "ab"},
        {"abc", 1, ""},
        {"a\xe2\x82\xac", 5, "a\xe2\x82\xac"},
        {"a\xe2\x82\xac", 4, "a"},
        {"a\x1b", 6, "a\\x1b"},
        {"a\x1b", 5, "a"},
        {"a\xc2\x9b", 9, "a"}, /* both bytes of it or none */
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char got[16];

        CASE("row %zu", i);
        memset(got, '#', sizeof(got));
        str_printable(got, rows[i].size, rows[i].src, strlen(rows[i].src));
        CHECK_STR(got, rows[i].want);
        CHECK_INT(got[rows[i].size], '#');
    }
    char none = '#';
    str_printable(&none, 0, "a", 1);
    CHECK_INT(none, '#');
}

TEST(json_is_counted_outside_strings)
{
    static const struct {
        const char *text;
        size_t levels;
        size_t values;
    } rows[] = {
        {"", 0, 0},
        {"1", 0, 0},
        {"[]", 1, 1},
        {"[{}]", 2, 2},
        {"[[],[],{}]", 2, 6},
        {"{\"a\":1,\"b\":[2,3]}", 2, 6},
        {"[\"[[[\\\"[[,:\"]", 1, 1},
        {"\"a\\\\\"[[", 2, 2},
        {"]]]}}[", 1, 1}, /* what closes nothing does not count */
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct str_json_extent got = str_json_extent(rows[i].text, strlen(rows[i].text));
        CASE("%s", rows[i].text);
        CHECK_INT(got.levels, rows[i].levels);
        CHECK_INT(got.values, rows[i].values);
    }
}
