/* SPDX-License-Identifier: Apache-2.0 */
/* The .env file of a project; see dotenv.h. */
#include "cli/common/dotenv.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "cli/common/hostfile.h"

#define FILE_MAX ((size_t)1 << 20)
#define BLANK " \t\r"

struct reader {
    const char *at;
    const char *origin;
    unsigned line;
    struct buf name;
    struct buf value;
};

static int wrong(const struct reader *r, const char *what, struct err *e)
{
    return err_set(e, ERR_INVALID, "%s:%u: %s", r->origin, r->line, what);
}

static void skip_blank(struct reader *r)
{
    r->at += strspn(r->at, BLANK);
}

static void skip_line(struct reader *r)
{
    r->at += strcspn(r->at, "\n");
    if (*r->at == '\n') {
        r->at++;
        r->line++;
    }
}

static bool is_name_char(char c, bool first)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
           (!first && c >= '0' && c <= '9');
}

static size_t name_length(const char *s)
{
    size_t n = 0;

    while (is_name_char(s[n], n == 0)) {
        n++;
    }
    return n;
}

static int read_name(struct reader *r, struct err *e)
{
    if (str_starts(r->at, "export ") || str_starts(r->at, "export\t")) {
        r->at += strlen("export");
        skip_blank(r);
    }
    size_t n = name_length(r->at);
    if (n == 0) {
        return wrong(r, "expected NAME=value, or a comment that begins with #", e);
    }
    if (buf_add(&r->name, r->at, n) < 0) {
        return err_sys(e, ENOMEM, "%s", r->origin);
    }
    r->at += n;
    skip_blank(r);
    if (*r->at != '=') {
        return wrong(r, "expected = after the name", e);
    }
    r->at++;
    skip_blank(r);
    return 0;
}

/* The character that a backslash in double quotes stands for; 0: none. */
static char unescape(char c)
{
    switch (c) {
    case 'n':
        return '\n';
    case 't':
        return '\t';
    case 'r':
        return '\r';
    case '"':
    case '\\':
    case '$':
        return c;
    default:
        return 0;
    }
}

static int read_quoted(struct reader *r, struct err *e)
{
    char quote = *r->at++;

    for (; *r->at != quote; r->at++) {
        char c = *r->at;

        if (c == '\0') {
            return wrong(r, "the file ends inside quotes", e);
        }
        if (c == '\n') {
            r->line++;
        }
        if (c == '\\' && quote == '"') {
            c = unescape(*++r->at);
            if (c == 0) {
                return wrong(r, "in double quotes \\ can be followed only by n t r \" \\ or $", e);
            }
        }
        if (buf_add(&r->value, &c, 1) < 0) {
            return err_sys(e, ENOMEM, "%s", r->origin);
        }
    }
    r->at++;
    skip_blank(r);
    if (*r->at != '\0' && *r->at != '\n' && *r->at != '#') {
        return wrong(r, "unexpected text after the closing quote", e);
    }
    return 0;
}

/* Reads to the end of the line, or to a # after a blank; drops blanks at the end. */
static int read_plain(struct reader *r, struct err *e)
{
    size_t n = 0;

    while (r->at[n] != '\0' && r->at[n] != '\n' &&
           !(r->at[n] == '#' && (n == 0 || strchr(BLANK, r->at[n - 1]) != NULL))) {
        n++;
    }
    while (n > 0 && strchr(BLANK, r->at[n - 1]) != NULL) {
        n--;
    }
    return buf_add(&r->value, r->at, n) < 0 ? err_sys(e, ENOMEM, "%s", r->origin) : 0;
}

static int read_variable(struct reader *r, const struct dotenv_listener *to, struct err *e)
{
    buf_consume(&r->name, r->name.len);
    buf_consume(&r->value, r->value.len);
    if (read_name(r, e) < 0) {
        return -1;
    }
    bool quoted = *r->at == '"' || *r->at == '\'';
    if ((quoted ? read_quoted(r, e) : read_plain(r, e)) < 0) {
        return -1;
    }
    skip_line(r);
    const char *value = r->value.len > 0 ? r->value.data : "";
    return to->on_variable(r->name.data, value, to->user, e) != 0 ? -1 : 0;
}

int dotenv_parse(const char *text, size_t n, const char *origin,
                 const struct dotenv_listener *listener, struct err *e)
{
    struct reader r = {.at = text,
                       .origin = origin,
                       .line = 1,
                       .name = BUF_INIT(FILE_MAX),
                       .value = BUF_INIT(FILE_MAX)};
    int status = 0;

    if (memchr(text, '\0', n) != NULL) {
        return err_set(e, ERR_INVALID, "%s is not a text file", origin);
    }
    while (status == 0 && *r.at != '\0') {
        skip_blank(&r);
        if (*r.at == '\n' || *r.at == '#') {
            skip_line(&r);
        } else if (*r.at != '\0') {
            status = read_variable(&r, listener, e);
        }
    }
    buf_release(&r.name);
    buf_release(&r.value);
    return status;
}

static int check_variable(const char *name, const char *value, void *user, struct err *e)
{
    (void)name;
    (void)value;
    (void)user;
    (void)e;
    return 0;
}

static int set_variable(const char *name, const char *value, void *user, struct err *e)
{
    (void)user;
    return setenv(name, value, 0) < 0 ? err_sys(e, errno, "cannot set %s", name) : 0;
}

int dotenv_load(const char *path, struct err *e)
{
    static const struct dotenv_listener check = {check_variable, NULL};
    static const struct dotenv_listener set = {set_variable, NULL};
    AUTO_BUF struct buf text = BUF_INIT(FILE_MAX);

    if (hostfile_read_script(path, &text, e) < 0) {
        return e->code == ERR_NOT_FOUND ? 0 : -1;
    }
    if (text.len == 0) {
        return 0;
    }
    if (dotenv_parse(text.data, text.len, path, &check, e) < 0) {
        return -1;
    }
    return dotenv_parse(text.data, text.len, path, &set, e);
}
