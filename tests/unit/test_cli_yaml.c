/* SPDX-License-Identifier: Apache-2.0 */
/* JSON as text and as YAML: nothing is lost, and what a reader could misread is quoted. */
#include <errno.h>

#include "base/attr.h"
#include "cli/common/json_text.h"
#include "cli/sandbox_run/yaml.h"
#include "tap.h"

#define BYTES_MAX ((size_t)1 << 20)

static void check_yaml(const char *json, const char *want)
{
    AUTO_BUF struct buf b = BUF_INIT(BYTES_MAX);

    CASE("%s", json);
    CHECK(json_text_is_valid(json, strlen(json)));
    CHECK_INT(yaml_add(&b, json, strlen(json)), 0);
    CHECK_STR(b.data, want);
}

TEST(yaml_scalars)
{
    static const struct {
        const char *json;
        const char *yaml;
    } cases[] = {
        {"null", "null\n"},
        {" true ", "true\n"},
        {"0.1", "0.1\n"},
        {"-1e3", "-1e3\n"},
        {"123456789012345678901234567890", "123456789012345678901234567890\n"},
        {"\"plain text\"", "plain text\n"},
        {"\"a/b_c-d.e\"", "a/b_c-d.e\n"},
        {"\"\"", "\"\"\n"},
        {"\"yes\"", "\"yes\"\n"},
        {"\"NULL\"", "\"NULL\"\n"},
        {"\"n\"", "\"n\"\n"},
        {"\"1\"", "\"1\"\n"},
        {"\"1e3\"", "\"1e3\"\n"},
        {"\"2024-01-01\"", "\"2024-01-01\"\n"},
        {"\"~\"", "\"~\"\n"},
        {"\"- a\"", "\"- a\"\n"},
        {"\"a: b\"", "\"a: b\"\n"},
        {"\"a #b\"", "\"a #b\"\n"},
        {"\"a  b\"", "\"a  b\"\n"},
        {"\"a \"", "\"a \"\n"},
        {"\" a\"", "\" a\"\n"},
        {"\"@x\"", "\"@x\"\n"},
        {"\"it's\"", "\"it's\"\n"},
        {"\"say \\\"hi\\\"\"", "\"say \\\"hi\\\"\"\n"},
        {"\"a\\nb\\tc\"", "\"a\\nb\\tc\"\n"},
        {"\"\\u0000\\u001b\\u007f\\u0085\"", "\"\\x00\\x1b\\x7f\\x85\"\n"},
        {"\"\\u2028\\ufeff\"", "\"\\u2028\\ufeff\"\n"},
        {"\"\\ud83d\\ude00\"", "\"\xf0\x9f\x98\x80\"\n"},
        {"\"\xc3\xa9t\xc3\xa9\"", "\"\xc3\xa9t\xc3\xa9\"\n"},
        {"\"a\\/b\"", "a/b\n"},
        {"\"\\\\\"", "\"\\\\\"\n"},
        {"[]", "[]\n"},
        {"{ }", "{}\n"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        check_yaml(cases[i].json, cases[i].yaml);
    }
}

TEST(yaml_collections)
{
    check_yaml("[1, \"a\", null]", "- 1\n- a\n- null\n");
    check_yaml("{\"a\": 1, \"b\": {\"c\": []}, \"yes\": {}}", "a: 1\nb:\n  c: []\n\"yes\": {}\n");
    check_yaml("{\"list\":[{\"a\":1,\"b\":2},[3,[4]],5]}",
               "list:\n  - a: 1\n    b: 2\n  - - 3\n    - - 4\n  - 5\n");
    check_yaml("[[],{},[[]]]", "- []\n- {}\n- - []\n");
    check_yaml("{\"\":{\"x y\":\"z\"}}", "\"\":\n  x y: z\n");
}

TEST(yaml_long_keys_take_the_explicit_form)
{
    AUTO_BUF struct buf json = BUF_INIT(BYTES_MAX);
    AUTO_BUF struct buf want = BUF_INIT(BYTES_MAX);
    char key[1101];

    memset(key, 'k', sizeof(key) - 1);
    key[sizeof(key) - 1] = '\0';
    CHECK_INT(buf_printf(&json, "{\"%s\":{\"a\":1,\"b\":2}}", key), 0);
    CHECK_INT(buf_printf(&want, "? \"%s\"\n: a: 1\n  b: 2\n", key), 0);
    check_yaml(json.data, want.data);
}

TEST(yaml_stops_at_the_maximum)
{
    AUTO_BUF struct buf b = BUF_INIT(4);

    CHECK_INT(yaml_add(&b, "[1,2,3]", 7), -EMSGSIZE);
}

TEST(json_is_checked_strictly)
{
    static const char *const bad[] = {
        "",         "{",      "[1,]",  "{\"a\":1,}", "{\"a\":1,\"a\":2}", "1 2", "NaN",
        "'a'",      "\"\t\"", "[1] x", "{a:1}",      "\"\\ud800\"",       "01",  "\"\xff\"",
        "Infinity", "[1}",    "nul",
    };

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        CASE("%s", bad[i]);
        CHECK(!json_text_is_valid(bad[i], strlen(bad[i])));
    }

    struct err e;
    CHECK(json_text_load("{\"a\":\n 1,}", 10, "the event", &e) == NULL);
    CHECK(strncmp(e.msg, "the event is not valid JSON: line 2, column ", 44) == 0);
}

TEST(json_nesting_is_bounded)
{
    AUTO_BUF struct buf b = BUF_INIT(BYTES_MAX);

    for (int i = 0; i < 100000; i++) {
        CHECK_INT(buf_add(&b, "[", 1), 0);
    }
    CHECK(!json_text_is_valid(b.data, b.len));
}

TEST(json_strings_hold_any_bytes)
{
    static const char bytes[] = "a\"\\\n\t\r\x1b\x7f\xc2\x9b\xff\xe2\x82\xc3\xa9z";
    AUTO_BUF struct buf b = BUF_INIT(BYTES_MAX);

    CHECK_INT(json_text_add_string(&b, bytes, sizeof(bytes)), 0); /* with its NUL */
    CHECK_STR(b.data, "\"a\\\"\\\\\\n\\t\\u000d\\u001b\\u007f\\u009b\xef\xbf\xbd\xef\xbf\xbd"
                      "\xef\xbf\xbd\xc3\xa9z\\u0000\"");
    CHECK(json_text_is_valid(b.data, b.len));
}

TEST(json_is_indented_and_keeps_its_digits)
{
    static const struct {
        const char *in;
        const char *out;
    } cases[] = {
        {"1", "1"},
        {" [ ] ", "[]"},
        {"{\"a\":0.1,\"b\":[1,{}],\"c\":12345678901234567890123}",
         "{\n  \"a\": 0.1,\n  \"b\": [\n    1,\n    {}\n  ],\n  \"c\": 12345678901234567890123\n}"},
        {"{\"x\":\"{[,:]}\\\"\"}", "{\n  \"x\": \"{[,:]}\\\"\"\n}"},
        {"\"\x7f\xc2\x9b\"", "\"\\u007f\\u009b\""},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        AUTO_BUF struct buf b = BUF_INIT(BYTES_MAX);

        CASE("%s", cases[i].in);
        CHECK_INT(json_text_add_indented(&b, cases[i].in, strlen(cases[i].in)), 0);
        CHECK_STR(b.data, cases[i].out);
        CHECK(json_text_is_valid(b.data, b.len));
    }
}

TEST(json_made_harmless_means_the_same)
{
    static const char in[] = "{\"a\x7f\":\"\xc2\x80x\xc2\x9f\xc2\xa0\"}";
    AUTO_BUF struct buf b = BUF_INIT(BYTES_MAX);

    CHECK_INT(json_text_add_harmless(&b, in, sizeof(in) - 1), 0);
    CHECK_STR(b.data, "{\"a\\u007f\":\"\\u0080x\\u009f\xc2\xa0\"}");

    json_t *before = json_loads(in, 0, NULL);
    json_t *after = json_loads(b.data, 0, NULL);
    CHECK(before != NULL && after != NULL);
    CHECK(json_equal(before, after));
    json_decref(before);
    json_decref(after);
}
