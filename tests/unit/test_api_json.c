/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of JSON as huskd reads and writes it. Of the texts for api_json_parse() the first list must
 * be taken, the second refused; where RFC 8259 leaves the choice to the parser, the third says
 * which one ours is.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/contract/schema.h"
#include "base/attr.h"
#include "base/buf.h"
#include "tap.h"

struct text {
    const char *data;
    size_t len;
};

#define T(literal)                                                                                 \
    {                                                                                              \
        literal, sizeof(literal) - 1                                                               \
    }

static const struct text valid[] = {
    T("{}"),
    T("[]"),
    T(" [] "),
    T("\t\r\n {} \n"),
    T("null"),
    T("true"),
    T("false"),
    T("0"),
    T("-0"),
    T("7"),
    T("-7"),
    T("1.5"),
    T("-1.5"),
    T("1e3"),
    T("1E3"),
    T("1e+3"),
    T("1e-3"),
    T("0.0"),
    T("0e0"),
    T("0E+0"),
    T("123456789.123456789"),
    T("9223372036854775807"),
    T("-9223372036854775808"),
    T("\"\""),
    T("\"a\""),
    T("\" \""),
    T("\"\\\"\""),
    T("\"\\\\\""),
    T("\"\\/\""),
    T("\"/\""),
    T("\"\\b\\f\\n\\r\\t\""),
    T("\"\\u0041\""),
    T("\"\\u00e9\""),
    T("\"\\u00E9\""),
    T("\"\\ud83d\\ude00\""),
    T("\"\\uD83D\\uDE00\""),
    T("\"\\u0001\""),
    T("\"\\u001f\""),
    T("\"\\u007f\""),
    T("\"\x7f\""),
    T("\"\xc3\xa9\""),
    T("\"\xe2\x82\xac\""),
    T("\"\xf0\x9f\x98\x80\""),
    T("\"\xf4\x8f\xbf\xbf\""),
    T("\"\xe2\x80\xa8\""),
    T("\"\xef\xbf\xbf\""),
    T("\"\xef\xbb\xbf\""),
    T("\"[[[[{{{{\""),
    T("\"// no comment\""),
    T("[null]"),
    T("[1,2]"),
    T("[ 1 , 2 ]"),
    T("[[],[]]"),
    T("[1,\"a\",null,true,{}]"),
    T("{\"a\":1}"),
    T("{ \"a\" : 1 }"),
    T("{\"\":0}"),
    T("{\"a\":{\"a\":{\"a\":1}}}"),
    T("{\"a\":1,\"A\":2}"),
    T("{\"a\":[{\"b\":1},{\"b\":2}]}"),
    T("{\"\\u0061b\":1}"),
    T("{\"\xc3\xa9\":1}"),
};

static const struct text invalid[] = {
    T(""),
    T(" "),
    T("\n"),
    T("nul"),
    T("nulls"),
    T("True"),
    T("TRUE"),
    T("None"),
    T("undefined"),
    T("NaN"),
    T("-NaN"),
    T("Infinity"),
    T("-Infinity"),
    T("inf"),
    T("+1"),
    T("-"),
    T("- 1"),
    T("--1"),
    T("01"),
    T("-01"),
    T("00"),
    T("1."),
    T(".5"),
    T("-.5"),
    T("1.e1"),
    T("1e"),
    T("1e+"),
    T("1ee1"),
    T("1 000"),
    T("1_000"),
    T("1,0"),
    T("0x10"),
    T("0b1"),
    T("1a"),
    T("1.2.3"),
    T("'a'"),
    T("a"),
    T("\""),
    T("\"a"),
    T("a\""),
    T("\"\\\""),
    T("\"\\a\""),
    T("\"\\x41\""),
    T("\"\\'\""),
    T("\"\\0\""),
    T("\"\\u\""),
    T("\"\\u00\""),
    T("\"\\u004\""),
    T("\"\\u00g0\""),
    T("\"\\U0041\""),
    T("\"\\ud83d\""),
    T("\"\\ude00\""),
    T("\"\\ud83d\\u0041\""),
    T("\"\\ude00\\ud83d\""),
    T("\"\\ud83dx\""),
    T("\"\n\""),
    T("\"\t\""),
    T("\"\r\""),
    T("\"\x01\""),
    T("\"\x1f\""),
    T("\"a\" \"b\""),
    T("\"\x80\""),
    T("\"\xc3\""),
    T("\"\xc3(\""),
    T("\"\xc0\xaf\""),
    T("\"\xc1\xbf\""),
    T("\"\xe0\x80\xaf\""),
    T("\"\xed\xa0\x80\""),
    T("\"\xf0\x80\x80\xaf\""),
    T("\"\xf4\x90\x80\x80\""),
    T("\"\xf8\x88\x80\x80\x80\""),
    T("\"\xff\""),
    T("\xff\xfe[\x00]\x00"),
    T("\xef\xbb\xbf{}"),
    T("\xc2\xa0{}"),
    T("\f{}"),
    T("\v{}"),
    T("["),
    T("]"),
    T("[]]"),
    T("[[]"),
    T("[1"),
    T("[1,"),
    T("[1,]"),
    T("[,1]"),
    T("[,]"),
    T("[1,,2]"),
    T("[1 2]"),
    T("[1:2]"),
    T("[1}"),
    T("[\"a\""),
    T("[\"a\":1]"),
    T("{"),
    T("}"),
    T("{}}"),
    T("{]"),
    T("{\"a\"}"),
    T("{\"a\":}"),
    T("{\"a\":1"),
    T("{\"a\":1,}"),
    T("{,\"a\":1}"),
    T("{\"a\":1,,\"b\":2}"),
    T("{\"a\" 1}"),
    T("{\"a\"::1}"),
    T("{\"a\",1}"),
    T("{a:1}"),
    T("{'a':1}"),
    T("{1:1}"),
    T("{null:1}"),
    T("{[]:1}"),
    T("{\"a\":1 \"b\":2}"),
    T("{\"a\":1}#"),
    T("{\"a\":1}//x"),
    T("/* x */{}"),
    T("{\"a\":/* x */1}"),
    T("{} {}"),
    T("{}\n{}"),
    T("{},"),
    T("1 2"),
    T("\\u007b}"),
    T("<xml/>"),
    T("code=print(1)"),
};

/* Left to the parser by RFC 8259; ours refuses what would be read differently elsewhere. */
static const struct text refused_by_choice[] = {
    T("{\"a\":1,\"a\":1}"),
    T("{\"a\":1,\"a\":2}"),
    T("{\"a\":1,\"\\u0061\":2}"),
    T("{\"x\":{\"a\":1,\"a\":2}}"),
    T("9223372036854775808"),
    T("-9223372036854775809"),
    T("100000000000000000000000000000"),
    T("1e400"),
    T("-1e400"),
    T("1e999999999999"),
    T("\"\\u0000\""),
    T("{\"a\\u0000b\":1}"),
    T("\"a\0b\""),
    T("{}\0"),
    T("\0{}"),
    T("\0"),
};

static const struct text taken_by_choice[] = {
    T("1e-400"), /* becomes 0 */
    T("0.1e-999"),    T("123.456e-789"),
    T("\"\\uffff\""), /* no character, but a code point */
    T("\"\\ufdd0\""), T("3.141592653589793238462643383279502884197"),
};

static void check_all(const struct text *rows, size_t n, bool is_valid)
{
    for (size_t i = 0; i < n; i++) {
        struct err e = {0};

        CASE("%zu: %s", i, rows[i].data);
        json_t *value = api_json_parse(rows[i].data, rows[i].len, &e);
        CHECK((value != NULL) == is_valid);
        CHECK_INT(e.code, is_valid ? ERR_NONE : ERR_INVALID);
        json_decref(value);
    }
}

TEST(json_that_is_valid)
{
    check_all(valid, ARRAY_LEN(valid), true);
    check_all(taken_by_choice, ARRAY_LEN(taken_by_choice), true);
}

TEST(json_that_is_not)
{
    check_all(invalid, ARRAY_LEN(invalid), false);
    check_all(refused_by_choice, ARRAY_LEN(refused_by_choice), false);
}

/* n times `open`, then n times `close`. */
static json_t *nested(const char *open, const char *close, size_t n, struct err *e)
{
    size_t a = strlen(open);
    size_t b = strlen(close);
    AUTO_FREE char *text = calloc(n, a + b);

    CHECK(text != NULL);
    for (size_t i = 0; i < n; i++) {
        memcpy(text + i * a, open, a);
        memcpy(text + n * a + i * b, close, b);
    }
    return api_json_parse(text, n * (a + b), e);
}

TEST(json_depth_is_bounded)
{
    static const struct {
        const char *open;
        const char *close;
        size_t levels; /* per repetition */
    } rows[] = {{"[", "]", 1}, {"[{\"a\":", "}]", 2}, {"[", "", 1}};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err e = {0};

        CASE("%s", rows[i].open);
        json_t *value = nested(rows[i].open, rows[i].close, 100000, &e);
        CHECK(value == NULL);
        CHECK_STR(e.msg, "the body has more than 64 levels");
    }
    struct err e = {0};
    json_t *value = nested("[", "]", API_JSON_DEPTH_MAX, &e);
    CHECK(value != NULL);
    json_decref(value);
    CHECK(nested("[", "]", API_JSON_DEPTH_MAX + 1, &e) == NULL);

    /* Brackets in strings do not count, however their quotes are escaped. */
    static const char text[] =
        "[\"\\\\\", \"\\\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
        "[[[[[[[[[[[[[[[[[[[[[[[[[[\"]";
    value = api_json_parse(text, sizeof(text) - 1, &e);
    CHECK(value != NULL);
    json_decref(value);
}

/* Each of n values takes far more memory than text. */
TEST(json_values_are_counted_before_they_are_made)
{
    static const struct {
        const char *what;
        const char *value;
        size_t n;
        bool is_taken;
    } rows[] = {
        {"objects", "{},", API_JSON_VALUES_MAX / 2 - 1, true},
        {"too many objects", "{},", API_JSON_VALUES_MAX / 2, false},
        {"numbers", "1,", API_JSON_VALUES_MAX - 2, true},
        {"too many numbers", "1,", API_JSON_VALUES_MAX, false},
        {"too many arrays", "[],", API_JSON_VALUES_MAX / 2, false},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_BUF struct buf text = BUF_INIT((size_t)1 << 20);
        struct err e = {0};

        CASE("%s", rows[i].what);
        CHECK_INT(buf_add_str(&text, "["), 0);
        for (size_t k = 0; k < rows[i].n; k++) {
            CHECK_INT(buf_add_str(&text, rows[i].value), 0);
        }
        CHECK_INT(buf_add_str(&text, "1]"), 0);
        json_t *value = api_json_parse(text.data, text.len, &e);
        CHECK_INT(value != NULL, rows[i].is_taken);
        json_decref(value);
        if (!rows[i].is_taken) {
            CHECK_INT(e.code, ERR_LIMIT);
            CHECK_STR(e.msg, "the body has more than 200000 values");
        }
    }
    /* A file or a program is one value, whatever it holds. */
    AUTO_BUF struct buf text = BUF_INIT((size_t)1 << 20);
    struct err e = {0};
    CHECK_INT(buf_add_str(&text, "\""), 0);
    for (size_t k = 0; k < API_JSON_VALUES_MAX; k++) {
        CHECK_INT(buf_add_str(&text, "{},"), 0);
    }
    CHECK_INT(buf_add_str(&text, "\""), 0);
    json_t *value = api_json_parse(text.data, text.len, &e);
    CHECK(value != NULL);
    json_decref(value);
}

TEST(json_errors_name_the_place)
{
    static const char text[] = "{\n  \"a\": tru\n}";
    struct err e = {0};

    CHECK(api_json_parse(text, sizeof(text) - 1, &e) == NULL);
    CHECK(strstr(e.msg, "the body is not JSON: line 2") == e.msg);
    CHECK(api_json_parse("[\x01]", 3, &e) == NULL);
    CHECK(strchr(e.msg, '\x01') == NULL);
}

TEST(json_that_cannot_be_taken_is_not_called_something_else)
{
    static const char number[] = "the number is too large: a whole one must fit 64 bits";
    static const struct {
        const char *text;
        const char *want;
    } rows[] = {
        {"[9223372036854775808]", number},
        {"[-9223372036854775809]", number},
        {"[1e999]", number},
        {"[\"\\u0000\"]", "a text must not hold \\u0000"},
        {"{\"\\u0000\": 1}", "a text must not hold \\u0000"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err e = {0};

        CASE("%s", rows[i].text);
        CHECK(api_json_parse(rows[i].text, strlen(rows[i].text), &e) == NULL);
        CHECK(strstr(e.msg, "line 1 column ") == e.msg);
        CHECK_STR(strstr(e.msg, rows[i].want), rows[i].want);
    }
}

/* ---- as it is sent ---- */

/* Each is one that 17 digits spoil, or one that must stay as it is. */
TEST(numbers_are_sent_with_the_fewest_digits)
{
    static const char *const texts[] = {
        "2.272",
        "0.1",
        "-0.1",
        "1.1",
        "100.0",
        "0.30000000000000004",
        "1e22",
        "1.7976931348623157e308",
        "1e-7",
        "-2.5e-9",
        "9007199254740993",
        "-9223372036854775808",
        "0.0",
        "-0.0",
        "[2.272,0.1,{\"0.10000000000000001\":0.1}]",
        "{\"a\":\"0.10000000000000001 \\\" 0.10000000000000001\",\"b\":0.1}",
        "[\"\\\\\",0.1,\"\\\\\\\"\",0.1]",
    };

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        char got[256];
        size_t len = 0;
        json_t *value = json_loads(texts[i], JSON_DECODE_ANY, NULL);
        CASE("%s", texts[i]);
        CHECK(value != NULL);
        size_t n = api_json_write(value, got, sizeof(got));
        CHECK_INT(n, strlen(texts[i]));
        CHECK(n < sizeof(got) && memcmp(got, texts[i], n) == 0);
        char *whole = api_json_text(value, &len);
        CHECK_STR(whole, texts[i]);
        CHECK_INT(len, strlen(texts[i]));
        free(whole);
        json_decref(value);
    }
}

TEST(a_text_without_room_says_how_much_it_needs)
{
    json_t *value = json_pack("[f, s]", 0.1, "text");
    char small[8];
    size_t need = api_json_write(value, small, sizeof(small));
    char *large = malloc(need);

    CHECK(need > sizeof(small));
    CHECK_INT(api_json_write(value, large, need), strlen("[0.1,\"text\"]"));
    free(large);
    json_decref(value);
}

/* Random bits as a number: what is sent reads back as the same. */
TEST(every_number_reads_back_as_itself)
{
    uint64_t state = 88172645463325252ULL;

    for (int i = 0; i < 20000; i++) {
        union {
            uint64_t bits;
            double number;
        } v;
        char got[64];
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        v.bits = state;
        if (!isfinite(v.number)) {
            continue;
        }
        json_t *value = json_real(v.number);
        size_t n = api_json_write(value, got, sizeof(got) - 1);
        got[n] = '\0';
        json_t *again = json_loads(got, JSON_DECODE_ANY, NULL);
        CASE("%s", got);
        CHECK(json_is_real(again) && json_real_value(again) == v.number);
        json_decref(again);
        json_decref(value);
    }
}
