/* SPDX-License-Identifier: Apache-2.0 */
/* The .env file of a project: what is read, and that anything else is refused with its line. */
#include "base/attr.h"
#include "base/buf.h"
#include "cli/common/dotenv.h"
#include "tap.h"

#define TEXT_MAX 4096

static int on_variable(const char *name, const char *value, void *user, struct err *e)
{
    (void)e;
    return buf_printf(user, "%s=[%s];", name, value);
}

static int parse(const char *text, struct buf *seen, struct err *e)
{
    struct dotenv_listener listener = {on_variable, seen};

    return dotenv_parse(text, strlen(text), "x.env", &listener, e);
}

TEST(dotenv_values)
{
    static const struct {
        const char *text;
        const char *want;
    } cases[] = {
        {"A=1", "A=[1];"},
        {"A=1\nB=2\n", "A=[1];B=[2];"},
        {"A=1\r\nB='2'\r\n", "A=[1];B=[2];"},
        {"  A  =  1  ", "A=[1];"},
        {"export A=1", "A=[1];"},
        {"export\tA=1", "A=[1];"},
        {"exported=1", "exported=[1];"},
        {"A=", "A=[];"},
        {"A=\nB=2", "A=[];B=[2];"},
        {"A=one two", "A=[one two];"},
        {"A=x # why", "A=[x];"},
        {"A=x#y", "A=[x#y];"},
        {"A=# none", "A=[];"},
        {"A=a=b", "A=[a=b];"},
        {"A=$B ${C} `d`", "A=[$B ${C} `d`];"},
        {"A='a \\n $B # \"'", "A=[a \\n $B # \"];"},
        {"A='' # empty", "A=[];"},
        {"A='one\ntwo'\nB=2", "A=[one\ntwo];B=[2];"},
        {"A=\"a\\n\\t\\r\\\"\\\\\\$\"", "A=[a\n\t\r\"\\$];"},
        {"A=\"x\"#y", "A=[x];"},
        {"_a1=\xc3\xa9", "_a1=[\xc3\xa9];"},
        {"A=it's", "A=[it's];"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        AUTO_BUF struct buf seen = BUF_INIT(TEXT_MAX);
        struct err e = {0};

        CASE("%s", cases[i].text);
        CHECK_INT(parse(cases[i].text, &seen, &e), 0);
        CHECK_STR(seen.data, cases[i].want);
    }
}

TEST(dotenv_without_variables)
{
    static const char *const cases[] = {"", "\n", "# only this", "  \t\r\n\n  # that", "   "};

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        AUTO_BUF struct buf seen = BUF_INIT(TEXT_MAX);
        struct err e = {0};

        CASE("%zu", i);
        CHECK_INT(parse(cases[i], &seen, &e), 0);
        CHECK_INT((int)seen.len, 0);
    }
}

TEST(dotenv_refuses)
{
    static const struct {
        const char *text;
        const char *place;
    } cases[] = {
        {"nonsense", "x.env:1: "},  {"A=1\n\nB", "x.env:3: "},
        {"=1", "x.env:1: "},        {"1A=1", "x.env:1: "},
        {"A-B=1", "x.env:1: "},     {"A B=1", "x.env:1: "},
        {"export", "x.env:1: "},    {"A='x", "x.env:1: "},
        {"A='x\ny\n", "x.env:3: "}, {"A=\"x\\", "x.env:1: "},
        {"A=\"\\q\"", "x.env:1: "}, {"A='x'y", "x.env:1: "},
        {"A='x' 'y'", "x.env:1: "}, {"A=1\nA='a\nb' c\n", "x.env:3: "},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        AUTO_BUF struct buf seen = BUF_INIT(TEXT_MAX);
        struct err e = {0};

        CASE("%s", cases[i].text);
        CHECK_INT(parse(cases[i].text, &seen, &e), -1);
        CHECK_INT(e.code, ERR_INVALID);
        CHECK(strncmp(e.msg, cases[i].place, strlen(cases[i].place)) == 0);
    }
}

TEST(dotenv_with_nul)
{
    static const char text[] = "A=1\0B=2";
    AUTO_BUF struct buf seen = BUF_INIT(TEXT_MAX);
    struct dotenv_listener listener = {on_variable, &seen};
    struct err e = {0};

    CHECK_INT(dotenv_parse(text, sizeof(text) - 1, "x.env", &listener, &e), -1);
    CHECK_INT((int)seen.len, 0);
}
