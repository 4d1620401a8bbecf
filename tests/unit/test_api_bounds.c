/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Boundary table of the contract, made from its own tables: for every number, length and count of
 * every body and parameter, the bound is accepted and the next value is refused. And every format,
 * row by row.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/contract/schema.h"
#include "base/attr.h"
#include "tap.h"

#define TEXT_MOST 70000 /* longer bounds are tested by hand in test_api_schema.c */

static unsigned checked;

static bool passes(const struct api_schema *s, json_t *value)
{
    static struct api_violations v;

    v = (struct api_violations){0};
    CHECK(value != NULL);
    int r = api_schema_check(s, value, "body", &v);
    json_decref(value);
    checked++;
    return r == 0;
}

static json_t *number(const struct api_schema *s, int64_t at, int step)
{
    if ((s->types & API_TYPE_NUMBER) != 0) {
        return json_real((double)at / 1000.0 + step * 0.0005);
    }
    return json_integer(at + step);
}

static void check_numbers(const struct api_schema *s)
{
    if (!s->has_min && !s->has_max) {
        return;
    }
    CHECK(s->has_min && s->has_max && s->min <= s->max);
    CHECK(!passes(s, number(s, s->min, -1)));
    CHECK(passes(s, number(s, s->min, 0)));
    CHECK(passes(s, number(s, s->max, 0)));
    CHECK(!passes(s, number(s, s->max, 1)));
    CHECK(!passes(s, json_integer(INT64_MIN)));
    CHECK(!passes(s, json_integer(INT64_MAX)));
    CHECK(!passes(s, json_true()));
    if ((s->types & API_TYPE_NUMBER) == 0) {
        CHECK(!passes(s, json_real((double)s->min)));
    } else {
        CHECK(!passes(s, json_real(1e308)) && !passes(s, json_real(-1e308)));
    }
    if (s->format == API_FORMAT_SIZE) {
        char text[32];
        snprintf(text, sizeof(text), "%" PRId64, s->max);
        CHECK(passes(s, json_string(text)));
        snprintf(text, sizeof(text), "%" PRId64, s->max + 1);
        CHECK(!passes(s, json_string(text)));
        snprintf(text, sizeof(text), "%" PRId64, s->min - 1);
        CHECK(!passes(s, json_string(text)));
    }
}

static json_t *letters(size_t n)
{
    AUTO_FREE char *text = calloc(1, n + 1);

    CHECK(text != NULL);
    memset(text, 'a', n);
    return json_string(text);
}

/* Formats whose strings can be as long as the contract says and consist of one letter. */
static bool is_free_text(const struct api_schema *s)
{
    return s->values == NULL && s->format != API_FORMAT_SIZE && s->format != API_FORMAT_CPU &&
           s->format != API_FORMAT_DATE_TIME && s->format != API_FORMAT_RELATIVE_PATH &&
           s->format != API_FORMAT_FILE_PATH && s->format != API_FORMAT_SE_PATH &&
           s->format != API_FORMAT_CURSOR;
}

static void check_lengths(const struct api_schema *s)
{
    if (s->values != NULL) {
        CHECK(passes(s, json_string(s->values[0])));
        CHECK(!passes(s, json_string("no such value")) && !passes(s, json_string("")));
        return;
    }
    CHECK(s->max_length > 0 || s->max_bytes > 0);
    if (s->max_length > 0 && s->max_length < TEXT_MOST) {
        CHECK(!passes(s, letters(s->max_length + 1)));
        if (is_free_text(s)) {
            CHECK(passes(s, letters(s->max_length)));
        }
    }
    if (s->min_length > 0) {
        CHECK(!passes(s, letters(s->min_length - 1)));
        if (is_free_text(s)) {
            CHECK(passes(s, letters(s->min_length)));
        }
    }
}

static void check_schema(const struct api_schema *s);

static json_t *array_of(json_t *item, size_t n)
{
    json_t *array = json_array();

    for (size_t i = 0; i < n; i++) {
        json_array_append(array, item);
    }
    return array;
}

static void check_array(const struct api_schema *s)
{
    json_t *item = json_string("a");

    check_schema(s->items);
    CHECK(s->max_items > 0);
    if ((s->items->types & API_TYPE_STRING) != 0) {
        CHECK(passes(s, array_of(item, s->max_items)));
        CHECK(!passes(s, array_of(item, s->max_items + 1)));
    }
    if (s->min_items > 0) {
        CHECK(!passes(s, array_of(item, s->min_items - 1)));
    }
    json_decref(item);
}

static void check_object(const struct api_schema *s)
{
    for (size_t i = 0; i < s->n_fields; i++) {
        CASE("%s", s->fields[i].name);
        check_schema(s->fields[i].schema);
    }
    if (s->items != NULL) {
        json_t *map = json_object();
        char name[16];

        check_schema(s->items);
        CHECK(s->max_items > 0);
        for (size_t i = 0; i < s->max_items; i++) {
            snprintf(name, sizeof(name), "n%zu", i);
            json_object_set_new(map, name, json_string("x"));
        }
        CHECK(passes(s, json_incref(map)));
        json_object_set_new(map, "more", json_string("x"));
        CHECK(!passes(s, map));
    }
}

static void check_schema(const struct api_schema *s)
{
    check_numbers(s);
    if ((s->types & API_TYPE_STRING) != 0) {
        check_lengths(s);
    }
    if ((s->types & API_TYPE_ARRAY) != 0) {
        check_array(s);
    }
    if ((s->types & API_TYPE_OBJECT) != 0) {
        check_object(s);
    }
    if ((s->types & API_TYPE_NULL) == 0) {
        CHECK(!passes(s, json_null()));
    }
    if (s->fallback != NULL) {
        CHECK(passes(s, json_loads(s->fallback, JSON_DECODE_ANY, NULL)));
    }
}

TEST(every_bound_of_the_contract)
{
    for (unsigned op = 0; op < API_OPS; op++) {
        const struct api_op_info *info = api_op_get((enum api_op)op);
        const struct {
            const struct api_field *fields;
            size_t n;
        } lists[] = {{info->path, info->n_path},
                     {info->query, info->n_query},
                     {info->headers, info->n_headers}};

        for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
            for (size_t k = 0; k < lists[i].n; k++) {
                CASE("%s: %s", info->id, lists[i].fields[k].name);
                check_schema(lists[i].fields[k].schema);
            }
        }
        if (info->body_schema != NULL) {
            check_schema(info->body_schema);
        }
    }
    CHECK(checked > 800); /* that there was something to check */
}

TEST(formats)
{
    static const struct {
        enum api_format format;
        const char *good[9];
        const char *bad[14];
    } rows[] = {
        {API_FORMAT_SESSION_ID,
         {"a", "0", "A-_9", "sess_20260115_4f9d2c81"},
         {"", "-a", "_a", "a b", "a/b", "a.b", "..", "a\n", "\xc3\xa9", "a%2e"}},
        {API_FORMAT_TEMPLATE_NAME,
         {"a", "python", "my-t_1.2"},
         {"", "A", "-a", ".a", "a/b", "a b", ".."}},
        {API_FORMAT_AGENT_ID, {"a", "agent:7@host/x.y-z_1"}, {"", "-a", "a b", "a\t", "\xc3\xa9"}},
        {API_FORMAT_ENV_NAME, {"A", "_", "a1_B"}, {"", "1A", "A-B", "A=B", "A B", "\xc3\xa9"}},
        {API_FORMAT_IDENTIFIER, {"a", "_x", "os.path"}, {"", "1a", "a-b", "a b", ".a"}},
        {API_FORMAT_IDEMPOTENCY_KEY, {"k", "!~", "a-b_c/1"}, {"", " ", "a b", "\x7f", "\xc3\xa9"}},
        {API_FORMAT_NOT_BLANK,
         {"x", " x ", "\xe2\x82\xac", "\xc2\xa1"},
         {"", " ", "\t\r\n\f\v", "\xc2\xa0", "\xc2\x85\x1c\x1f"}},
        {API_FORMAT_RELATIVE_PATH,
         {"a", "a/b", ".hidden", "a/...", "a\\b", "a b", "\xc3\xa9/x"},
         {"", "/", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/./b", "a/../b"}},
        {API_FORMAT_FILE_PATH, {"", ".", "a", "a/b"}, {"/", "..", "./a", "a/", "a/..", "a//b"}},
        {API_FORMAT_SE_PATH,
         {"", "/", "/a/b", "a", "a//b/", "./a", "...x"},
         {"..", "../a", "a/..", "/..", "a/../b", "//../x"}},
        {API_FORMAT_SIZE,
         {"0", "1", "512Mi", "1Gi", "100M", "64K", "2GB", "512m", "1TiB"},
         {"", "-1", "1.5G", "1 M", "M", "1PB", "1mB", "0x1", "1e3"}},
        {API_FORMAT_CPU, {"1", "0.5", "0.125", "16"}, {"", ".5", "1.", "1.2345", "-1", "1e3", "a"}},
        {API_FORMAT_DATE_TIME,
         {"2026-01-15T09:30:00Z", "2026-01-15T09:30:00.123456789Z", "2026-12-31T23:59:59+01:00",
          "2026-01-15T09:30:00-23:59", "2024-02-29T00:00:00Z"},
         {"", "2026-01-15", "2026-01-15 09:30:00Z", "2026-01-15T09:30:00", "2026-13-15T09:30:00Z",
          "2026-01-32T09:30:00Z", "2026-01-15T24:30:00Z", "2026-01-15T09:60:00Z",
          "2026-01-15T09:30:00.Z", "2026-01-15T09:30:00.1234567890Z", "2026-01-15T09:30:00+1:00",
          "2026-01-15t09:30:00z", "2026-02-29T00:00:00Z", "2026-04-31T00:00:00Z"}},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        for (size_t k = 0; k < ARRAY_LEN(rows[i].good) && rows[i].good[k] != NULL; k++) {
            CASE("format %d: \"%s\"", (int)rows[i].format, rows[i].good[k]);
            CHECK(api_format_check(rows[i].format, rows[i].good[k], strlen(rows[i].good[k])));
        }
        for (size_t k = 0; k < ARRAY_LEN(rows[i].bad) && rows[i].bad[k] != NULL; k++) {
            CASE("format %d: not \"%s\"", (int)rows[i].format, rows[i].bad[k]);
            CHECK(!api_format_check(rows[i].format, rows[i].bad[k], strlen(rows[i].bad[k])));
        }
    }
}

TEST(formats_refuse_nul_and_long_parts)
{
    char part[300];

    memset(part, 'a', sizeof(part));
    for (unsigned f = API_FORMAT_NONE + 1; f < API_FORMATS; f++) {
        CASE("format %u", f);
        CHECK(f == API_FORMAT_NOT_BLANK || !api_format_check((enum api_format)f, "a\0b", 3));
    }
    CHECK(api_format_check(API_FORMAT_RELATIVE_PATH, part, 255));
    CHECK(!api_format_check(API_FORMAT_RELATIVE_PATH, part, 256));
    CHECK(!api_format_check(API_FORMAT_SE_PATH, part, 256));
    CHECK(api_format_check(API_FORMAT_SESSION_ID, part, 64));
    CHECK(!api_format_check(API_FORMAT_SESSION_ID, part, 65));
    CHECK(api_format_check(API_FORMAT_TEMPLATE_NAME, part, 63));
    CHECK(!api_format_check(API_FORMAT_TEMPLATE_NAME, part, 64));
    CHECK(api_format_check(API_FORMAT_IDEMPOTENCY_KEY, part, 128));
    CHECK(!api_format_check(API_FORMAT_IDEMPOTENCY_KEY, part, 129));
}
