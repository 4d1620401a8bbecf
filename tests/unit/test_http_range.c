/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of http/range.h and http/date.h: conditions, ranges, ETags and dates. */
#include "http/range.h"

#include <string.h>

#include "base/attr.h"
#include "http/date.h"
#include "tap.h"

#define TAG "\"abc\""
#define DATE "Sun, 06 Nov 1994 08:49:37 GMT"
#define BEFORE "Sun, 06 Nov 1994 08:49:36 GMT"
#define AFTER "Sun, 06 Nov 1994 08:49:38 GMT"
#define SECONDS 784111777

TEST(ranges)
{
    static const struct {
        const char *range;
        uint64_t size;
        int status;
        uint64_t first;
        uint64_t length;
    } rows[] = {
        {NULL, 100, 200, 0, 100},
        {"bytes=0-9", 100, 206, 0, 10},
        {"bytes=0-0", 100, 206, 0, 1},
        {"bytes=99-99", 100, 206, 99, 1},
        {"bytes=0-", 100, 206, 0, 100},
        {"bytes=90-", 100, 206, 90, 10},
        {"bytes=90-1000", 100, 206, 90, 10},
        {"bytes=-1", 100, 206, 99, 1},
        {"bytes=-100", 100, 206, 0, 100},
        {"bytes=-1000", 100, 206, 0, 100},
        {"bytes=0-18446744073709551615", 100, 206, 0, 100},
        {"bytes=0-99999999999999999999999", 100, 206, 0, 100},
        {"bytes=-99999999999999999999999", 100, 206, 0, 100},
        {"bytes=100-", 100, 416, 0, 0},
        {"bytes=100-200", 100, 416, 0, 0},
        {"bytes=99999999999999999999999-", 100, 416, 0, 0},
        {"bytes=-0", 100, 416, 100, 0},
        {"bytes=0-", 0, 416, 0, 0},
        {"bytes=0-0", 0, 416, 0, 0},
        {"bytes=-5", 0, 416, 0, 0},
        /* Malformed or several: the whole file. */
        {"bytes=5-4", 100, 200, 0, 100},
        {"bytes=", 100, 200, 0, 100},
        {"bytes=-", 100, 200, 0, 100},
        {"bytes=a-b", 100, 200, 0, 100},
        {"bytes=0-1,3-4", 100, 200, 0, 100},
        {"bytes= 0-1", 100, 200, 0, 100},
        {"bytes=0 -1", 100, 200, 0, 100},
        {"bytes=0-1 ", 100, 200, 0, 100},
        {"bytes=+1-2", 100, 200, 0, 100},
        {"bytes=0x1-2", 100, 200, 0, 100},
        {"bytes=1", 100, 200, 0, 100},
        {"lines=0-1", 100, 200, 0, 100},
        {"", 100, 200, 0, 100},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct http_conditions c = {.range = rows[i].range};
        CASE("%s of %llu", rows[i].range, (unsigned long long)rows[i].size);
        struct http_selection s = http_select(&c, rows[i].size, TAG, SECONDS);
        CHECK_INT(s.status, rows[i].status);
        CHECK_INT(s.first, rows[i].first);
        CHECK_INT(s.length, rows[i].length);
    }
}

TEST(conditions)
{
    static const struct {
        struct http_conditions c;
        int status;
    } rows[] = {
        {{.if_none_match = TAG}, 304},
        {{.if_none_match = "W/" TAG}, 304},
        {{.if_none_match = "\"x\", " TAG}, 304},
        {{.if_none_match = "*"}, 304},
        {{.if_none_match = "\"x\""}, 200},
        {{.if_none_match = "abc"}, 200},
        {{.if_none_match = "\"abc"}, 200},
        {{.if_none_match = ""}, 200},
        {{.if_modified_since = DATE}, 304},
        {{.if_modified_since = AFTER}, 304},
        {{.if_modified_since = BEFORE}, 200},
        {{.if_modified_since = "yesterday"}, 200},
        {{.if_none_match = "\"x\"", .if_modified_since = DATE}, 200}, /* the tag wins */
        {{.if_match = TAG}, 200},
        {{.if_match = "*"}, 200},
        {{.if_match = "W/" TAG}, 412},
        {{.if_match = "\"x\""}, 412},
        {{.if_unmodified_since = DATE}, 200},
        {{.if_unmodified_since = BEFORE}, 412},
        {{.if_unmodified_since = "yesterday"}, 200},
        {{.if_match = TAG, .if_unmodified_since = BEFORE}, 200},
        {{.if_range = TAG, .range = "bytes=0-0"}, 206},
        {{.if_range = "\"x\"", .range = "bytes=0-0"}, 200},
        {{.if_range = "W/" TAG, .range = "bytes=0-0"}, 200},
        {{.if_range = DATE, .range = "bytes=0-0"}, 206},
        {{.if_range = AFTER, .range = "bytes=0-0"}, 200},
        {{.if_range = "\"x\"", .range = "bytes=900-"}, 200},
        {{.if_none_match = TAG, .range = "bytes=0-0"}, 304},
        {{.if_match = "\"x\"", .range = "bytes=0-0"}, 412},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("row %zu", i);
        CHECK_INT(http_select(&rows[i].c, 100, TAG, SECONDS).status, rows[i].status);
    }
}

TEST(etag_tells_files_apart)
{
    char a[HTTP_ETAG_SIZE];
    char b[HTTP_ETAG_SIZE];

    http_etag(1, (struct timespec){2, 3}, 4, a);
    http_etag(1, (struct timespec){2, 4}, 4, b);
    CHECK(a[0] == '"' && a[strlen(a) - 1] == '"');
    CHECK(strcmp(a, b) != 0);
    http_etag(2, (struct timespec){2, 3}, 4, b);
    CHECK(strcmp(a, b) != 0);
    http_etag(1, (struct timespec){2, 3}, 5, b);
    CHECK(strcmp(a, b) != 0);
    http_etag(UINT64_MAX, (struct timespec){INT64_MAX, 999999999}, UINT64_MAX, b);
    CHECK(b[0] == '"' && b[strlen(b) - 1] == '"');
}

TEST(dates)
{
    char text[HTTP_DATE_SIZE];
    time_t t;

    http_date_format(SECONDS, text);
    CHECK_STR(text, DATE);
    http_date_format(0, text);
    CHECK_STR(text, "Thu, 01 Jan 1970 00:00:00 GMT");
    http_date_format((time_t)1 << 50, text); /* far beyond year 9999 */
    CHECK_STR(text, "Thu, 01 Jan 1970 00:00:00 GMT");
    CHECK(http_date_parse(DATE, &t));
    CHECK_INT(t, SECONDS);
    CHECK(http_date_parse("Thu, 29 Feb 2024 23:59:59 GMT", &t));
    CHECK_INT(t, 1709251199);
}

TEST(malformed_dates)
{
    static const char *const rows[] = {
        "",
        "Mon, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun, 06 nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
        "Sun, 06 Nov 1994 24:00:00 GMT",
        "Sun, 06 Nov 1994 08:60:37 GMT",
        "Sun, 31 Feb 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 GMT ",
        "Sun, 06 Nov 1994 08-49-37 GMT",
        "Sun, 06 Nov -994 08:49:37 GMT",
    };
    time_t t = 42;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("%s", rows[i]);
        CHECK(!http_date_parse(rows[i], &t));
        CHECK_INT(t, 42);
    }
}
