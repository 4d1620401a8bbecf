/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of http/target.h: one decoding, and everything that must not survive it. */
#include "http/target.h"

#include <stdio.h>
#include <string.h>

#include "base/attr.h"
#include "tap.h"

static struct http_target t;

TEST(paths)
{
    static const struct {
        const char *raw;
        const char *path;
    } rows[] = {
        {"/", "/"},
        {"/a/b", "/a/b"},
        {"/a%20b", "/a b"},
        {"/%41", "/A"},
        {"/%2541", "/%41"},
        {"/a+b", "/a+b"},
        /* A slash that is encoded is no slash: it separates nothing. */
        {"/a%2fb%2Fc/d", "/a\x1f"
                         "b\x1f"
                         "c/d"},
        {"/%252F", "/%2F"},
        {"/%2F", "/\x1f"},
        {"/a%2F...%2F..b", "/a\x1f...\x1f..b"},
        {"/caf%C3%A9", "/caf\xc3\xa9"},
        {"/...", "/..."},
        {"/a./.b/..c", "/a./.b/..c"},
        {"//x", "//x"},
        {"/a;b=c,d@e:f!$&'()*", "/a;b=c,d@e:f!$&'()*"},
        {"/a?", "/a"},
        {"/a?/../", "/a"},
        {"http://host", "/"},
        {"http://host/", "/"},
        {"HTTP://HOST/x", "/x"},
        {"https://host/x", "/x"},
        {"http://host?q", "/"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("%s", rows[i].raw);
        CHECK_INT(http_target_split(rows[i].raw, HTTP_GET, "host", &t), 0);
        CHECK_STR(t.path, rows[i].path);
        CHECK_INT(t.path_len, strlen(rows[i].path));
    }
}

TEST(refused)
{
    static const char *const rows[] = {
        "",
        "a",
        "*",
        "/%",
        "/%4",
        "/%4g",
        "/%00",
        "/%0a",
        "/%1f",
        "/%7f",
        "/a%2f..",
        "/a%2F../b",
        "/..%2fb",
        "/a/.%2Fb",
        "/%2f%2e%2e",
        "/.",
        "/..",
        "/a/.",
        "/a/..",
        "/./a",
        "/../a",
        "/a/../b",
        "/%2e",
        "/%2e%2E",
        "/.%2e/a",
        "/%2e%2e/",
        "/%c0%ae",
        "/%c0%af",
        "/%ff",
        "/%e0%80%af",
        "/%ed%a0%80",
        "/%f5%80%80%80",
        "/a\\b",
        "/a\"b",
        "/a<b",
        "/a#b",
        "/a|b",
        "/a^b",
        "/a`b",
        "/{a}",
        "/[a]",
        "/a?b%",
        "/a?%00",
        "/a?%ff",
        "/a?b#c",
        "/a?b\"",
        "/a?b=%4",
        "/a?<",
        "http://",
        "http://other/",
        "http://host:80/",
        "http://u@host/",
        "ftp://host/",
        "host:80",
        "http:/host/",
        "http:host",
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("%s", rows[i]);
        CHECK_INT(http_target_split(rows[i], HTTP_GET, "host", &t), 400);
    }
}

TEST(asterisk_is_for_options)
{
    CHECK_INT(http_target_split("*", HTTP_OPTIONS, "host", &t), 0);
    CHECK_STR(t.path, "*");
    CHECK_INT(http_target_split("*a", HTTP_OPTIONS, "host", &t), 400);
    CHECK_INT(http_target_split("/x", HTTP_OPTIONS, "host", &t), 0);
}

/* The parameters as "name=value;..." */
static const char *shown(void)
{
    static char text[256];
    size_t at = 0;
    size_t n = 0;
    const char *name;
    const char *value;

    text[0] = '\0';
    while (http_target_next(&t, &at, &name, &value)) {
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s=%s;", name, value);
    }
    return text;
}

TEST(queries)
{
    static const struct {
        const char *raw;
        const char *want;
    } rows[] = {
        {"/", ""},
        {"/?", ""},
        {"/?a", "a=;"},
        {"/?a=", "a=;"},
        {"/?a=1&b=2", "a=1;b=2;"},
        {"/?a=1&a=2", "a=1;a=2;"},
        {"/?&&a=1&&", "a=1;"},
        {"/?=x", "=x;"},
        {"/?a=b=c", "a=b=c;"},
        {"/?a=b+c%20d%2B", "a=b c d+;"},
        {"/?%61=%26%3D", "a=&=;"},
        {"/?a=%0A", "a=\n;"},
        {"/?p=../../etc", "p=../../etc;"},
        {"/?x={[|\\^`]}", "x={[|\\^`]};"},
        {"/?a?b=/c", "a?b=/c;"},
        {"http://host?q=1", "q=1;"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("%s", rows[i].raw);
        CHECK_INT(http_target_split(rows[i].raw, HTTP_GET, "host", &t), 0);
        CHECK_STR(shown(), rows[i].want);
    }
}

TEST(largest_targets_fit)
{
    static char raw[HTTP_TARGET_MAX + 1];
    size_t at = 0;
    size_t n = 0;
    const char *name;
    const char *value;

    memset(raw, 'a', HTTP_TARGET_MAX);
    raw[0] = '/';
    CHECK_INT(http_target_split(raw, HTTP_GET, "host", &t), 0);
    CHECK_INT(t.path_len, HTTP_TARGET_MAX);

    for (size_t i = 1; i < HTTP_TARGET_MAX; i++) {
        raw[i] = i == 1 ? '?' : (i % 2 == 0 ? 'a' : '&');
    }
    CHECK_INT(http_target_split(raw, HTTP_GET, "host", &t), 0);
    while (http_target_next(&t, &at, &name, &value)) {
        n++;
    }
    CHECK_INT(n, (HTTP_TARGET_MAX - 2) / 2);
    CHECK(t.query_len <= sizeof(t.query));
}
