/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of base/log.h: levels, the form of a line, and that one event is one line. */
#include "base/log.h"

#include <fcntl.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "tap.h"

#define STAMP "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z "

/* stderr of the test goes to a pipe while it logs; what came out is in text. */
struct capture {
    int saved;
    int read_end;
    char text[8192];
};

static void capture_start(struct capture *c)
{
    int p[2];

    CHECK_INT(pipe2(p, O_CLOEXEC), 0);
    c->read_end = p[0];
    c->saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    CHECK(c->saved >= 0);
    CHECK(dup2(p[1], STDERR_FILENO) == STDERR_FILENO);
    close(p[1]);
}

static void capture_end(struct capture *c)
{
    CHECK(dup2(c->saved, STDERR_FILENO) == STDERR_FILENO); /* closes the pipe's last writer */
    close(c->saved);
    ssize_t n = fd_read_all(c->read_end, c->text, sizeof(c->text) - 1);
    CHECK(n >= 0);
    c->text[n] = '\0';
    close(c->read_end);
}

static bool matches(const char *text, const char *pattern)
{
    regex_t re;

    CHECK_INT(regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB), 0);
    bool yes = regexec(&re, text, 0, NULL, 0) == 0;
    regfree(&re);
    return yes;
}

static size_t count_newlines(const char *text)
{
    size_t n = 0;

    for (; *text != '\0'; text++) {
        n += *text == '\n' ? 1 : 0;
    }
    return n;
}

TEST(line_has_time_level_event_and_text)
{
    struct capture c;

    capture_start(&c);
    log_error("pool.refill", "template=%s n=%d", "python", 3);
    capture_end(&c);
    CHECK(matches(c.text, STAMP "error pool\\.refill template=python n=3\n$"));
    CHECK_INT(count_newlines(c.text), 1);
}

TEST(level_decides_what_is_written)
{
    static const struct {
        enum log_level level;
        size_t want;
    } rows[] = {{LOG_DEBUG, 4}, {LOG_INFO, 3}, {LOG_WARN, 2}, {LOG_ERROR, 1}};
    struct capture c;

    CASE("not set");
    capture_start(&c);
    log_info("a.b", "x=1");
    log_warn("a.b", "x=1");
    capture_end(&c);
    CHECK(matches(c.text, STAMP "warn a\\.b x=1\n$"));
    CHECK_INT(count_newlines(c.text), 1);

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("level %d", rows[i].level);
        log_set_level(rows[i].level);
        capture_start(&c);
        log_debug("a.b", "x=%d", 1);
        log_info("a.b", "x=%d", 1);
        log_warn("a.b", "x=%d", 1);
        log_error("a.b", "x=%d", 1);
        capture_end(&c);
        CHECK_INT(count_newlines(c.text), rows[i].want);
    }
}

TEST(text_cannot_forge_a_second_line)
{
    struct capture c;

    capture_start(&c);
    log_error("a.b", "name=%s", "x\n2030-01-01T00:00:00.000Z error forged\r\n");
    capture_end(&c);
    CHECK_INT(count_newlines(c.text), 1);
    CHECK(strchr(c.text, '\r') == NULL);
    CHECK(matches(c.text, STAMP "error a\\.b name=x 2030"));
}

TEST(long_lines_are_cut_and_still_end)
{
    char text[3000];
    struct capture c;

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';

    CASE("long text");
    capture_start(&c);
    log_error("a.b", "%s", text);
    capture_end(&c);
    CHECK_INT(count_newlines(c.text), 1);
    CHECK(strlen(c.text) <= 1024);
    CHECK(matches(c.text, STAMP "error a\\.b xxx*\n$"));

    CASE("long event");
    capture_start(&c);
    log_error(text, "%s", "tail");
    capture_end(&c);
    CHECK_INT(count_newlines(c.text), 1);
    CHECK(strlen(c.text) <= 1024);
    CHECK(matches(c.text, STAMP "error xxx*\n$"));
}

/* What a JSON line has behind its time. */
static void check_json(const char *text, const char *want)
{
    struct capture c;

    log_set_json(true);
    capture_start(&c);
    log_error("a_b", "%s", text);
    capture_end(&c);
    log_set_json(false);
    char *level = strstr(c.text, ",\"level\"");
    CHECK(level != NULL && matches(c.text, "^\\{\"time\":\"[^\"]+Z\",\"level\":\"error\""));
    CHECK_STR(level, want);
}

#define START ",\"level\":\"error\",\"event\":\"a_b\""

TEST(json_has_a_field_for_each_value)
{
    check_json("template=python n=3 ms=1.25",
               START ",\"template\":\"python\",\"n\":3,\"ms\":1.25}\n");
    check_json("session=s1: no room: really",
               START ",\"session\":\"s1\",\"message\":\"no room: really\"}\n");
    check_json("status=256; restart in 50 ms",
               START ",\"status\":256,\"message\":\"restart in 50 ms\"}\n");
    check_json("how=\"by a signal\" n=1", START ",\"how\":\"by a signal\",\"n\":1}\n");
    check_json("every box is gone", START ",\"message\":\"every box is gone\"}\n");
    check_json("id=007 v=1.2.3 e=", START ",\"id\":\"007\",\"v\":\"1.2.3\",\"e\":\"\"}\n");
}

TEST(json_of_hostile_text_is_one_line_and_no_other_field)
{
    check_json("s=x: level=debug event=forged\n{\"a\":1}", START
               ",\"s\":\"x\",\"message\":\"level=debug event=forged\\u000a{\\\"a\\\":1}\"}\n");
    check_json("m=\"x\" event=forged", START ",\"m\":\"x\",\"message\":\"event=forged\"}\n");
    check_json("bytes \xff\xc3 end", START ",\"message\":\"bytes \\ufffd\\ufffd end\"}\n");
}

TEST(json_that_is_too_long_is_cut_and_still_whole)
{
    char text[3000];
    struct capture c;

    memset(text, 1, sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    log_set_json(true);
    capture_start(&c);
    log_error("a_b", "%s", text);
    capture_end(&c);
    log_set_json(false);
    CHECK_INT(count_newlines(c.text), 1);
    CHECK(strlen(c.text) <= 2048 && matches(c.text, "u0001\"}\n$"));
}
