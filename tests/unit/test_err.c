/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of base/err.h: messages, codes, and truncation instead of overrun. */
#include "base/err.h"

#include <errno.h>
#include <string.h>

#include "tap.h"

TEST(set_fills_everything_and_returns_minus_one)
{
    struct err e = {.sys_errno = 99};

    CHECK_INT(err_set(&e, ERR_LIMIT, "box %d of %s", 3, "demo"), -1);
    CHECK_INT(e.code, ERR_LIMIT);
    CHECK_INT(e.sys_errno, 0);
    CHECK_STR(e.msg, "box 3 of demo");
}

TEST(sys_appends_the_reason)
{
    static const struct {
        int number;
        const char *want;
    } rows[] = {
        {ENOENT, "open a: No such file or directory"},
        {EPERM, "open a: Operation not permitted"},
        {123456, "open a: unknown error"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err e = {0};

        CASE("errno %d", rows[i].number);
        CHECK_INT(err_sys(&e, rows[i].number, "open %s", "a"), -1);
        CHECK_INT(e.code, ERR_SYSTEM);
        CHECK_INT(e.sys_errno, rows[i].number);
        CHECK_STR(e.msg, rows[i].want);
    }
}

TEST(wrap_prefixes_and_keeps_the_code)
{
    struct err e = {0};

    err_sys(&e, EACCES, "open b");
    CHECK_INT(err_wrap(&e, "template %s", "python"), -1);
    CHECK_STR(e.msg, "template python: open b: Permission denied");
    CHECK_INT(e.code, ERR_SYSTEM);
    CHECK_INT(e.sys_errno, EACCES);
}

TEST(long_messages_are_cut)
{
    char text[2 * sizeof(((struct err *)0)->msg)];
    struct {
        struct err e;
        char behind[16];
    } guarded;
    const size_t longest = sizeof(guarded.e.msg) - 1;

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    memset(guarded.behind, 'g', sizeof(guarded.behind));

    err_set(&guarded.e, ERR_INVALID, "%s", text);
    CHECK_INT(strlen(guarded.e.msg), longest);
    err_sys(&guarded.e, ENOENT, "%s", text);
    CHECK_INT(strlen(guarded.e.msg), longest);
    err_wrap(&guarded.e, "%s", "short");
    CHECK_INT(strlen(guarded.e.msg), longest);
    CHECK_INT(strncmp(guarded.e.msg, "short: xxx", 10), 0);
    err_wrap(&guarded.e, "%s", text);
    CHECK_INT(strlen(guarded.e.msg), longest);

    for (size_t i = 0; i < sizeof(guarded.behind); i++) {
        CHECK_INT(guarded.behind[i], 'g');
    }
}

TEST(every_code_has_a_type_and_a_status)
{
    for (int code = ERR_NONE; code < ERR_CODES; code++) {
        CASE("code %d", code);
        const char *type = err_type((enum err_code)code);
        int http = err_http((enum err_code)code);

        CHECK(type != NULL);
        CHECK(strlen(type) > 0);
        CHECK_INT(strspn(type, "abcdefghijklmnopqrstuvwxyz_"), strlen(type));
        CHECK(code == ERR_NONE ? http == 200 : http >= 400 && http < 600);
        for (int other = ERR_NONE; other < code; other++) {
            CHECK(strcmp(type, err_type((enum err_code)other)) != 0);
        }
    }
}

TEST(known_codes)
{
    CHECK_STR(err_type(ERR_INVALID), "invalid_argument");
    CHECK_INT(err_http(ERR_INVALID), 400);
    CHECK_STR(err_type(ERR_ISOLATION), "isolation_missing");
    CHECK_INT(err_http(ERR_ISOLATION), 503);
}

TEST(code_from_outside_is_not_an_index)
{
    static const int bad[] = {ERR_CODES, ERR_CODES + 1, -1, 1 << 30};

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        CASE("code %d", bad[i]);
        CHECK_STR(err_type((enum err_code)bad[i]), "unknown");
        CHECK_INT(err_http((enum err_code)bad[i]), 500);
    }
}

TEST(running_out_of_descriptors_is_a_limit)
{
    struct err e;

    CHECK_INT(err_sys(&e, EMFILE, "open"), -1);
    CHECK_INT(e.code, ERR_LIMIT);
    CHECK_INT(err_sys(&e, ENOENT, "open"), -1);
    CHECK_INT(e.code, ERR_SYSTEM);
}
