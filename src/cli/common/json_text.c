/* SPDX-License-Identifier: Apache-2.0 */
/* JSON as text; see json_text.h. */
#include "cli/common/json_text.h"

#include <string.h>

#include "base/str.h"

#define INDENT 2

json_t *json_text_load(const char *text, size_t n, const char *what, struct err *e)
{
    json_error_t why;
    size_t flags =
        JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL;

    json_t *value = json_loadb(text, n, flags, &why);
    if (value == NULL) {
        err_set(e, ERR_INVALID, "%s is not valid JSON: line %d, column %d: %s", what, why.line,
                why.column, why.text);
    }
    return value;
}

bool json_text_is_valid(const char *text, size_t n)
{
    struct err ignored;
    json_t *value = json_text_load(text, n, "", &ignored);

    json_decref(value);
    return value != NULL;
}

/* The code point if it is a control character, else 0. */
static unsigned terminal_control(const char *p, size_t n)
{
    unsigned char c = (unsigned char)p[0];

    if (c == 0x7f) {
        return c;
    }
    if (c == 0xc2 && n > 1 && (unsigned char)p[1] >= 0x80 && (unsigned char)p[1] < 0xa0) {
        return (unsigned char)p[1];
    }
    return 0;
}

static int add_char(struct buf *b, const char *p, size_t len)
{
    unsigned char c = (unsigned char)p[0];
    unsigned control = c < 0x20 ? c : terminal_control(p, len);

    if (c == '"' || c == '\\') {
        return buf_printf(b, "\\%c", c);
    }
    if (c == '\n') {
        return buf_add_str(b, "\\n");
    }
    if (c == '\t') {
        return buf_add_str(b, "\\t");
    }
    if (control != 0 || c == 0) {
        return buf_printf(b, "\\u%04x", control);
    }
    return buf_add(b, p, len);
}

int json_text_add_string(struct buf *b, const char *s, size_t n)
{
    int r = buf_add(b, "\"", 1);

    for (size_t i = 0; r == 0 && i < n;) {
        size_t len = str_utf8_len(s + i, n - i);

        r = len == 0 ? buf_add_str(b, "\xef\xbf\xbd") : add_char(b, s + i, len);
        i += len == 0 ? 1 : len;
    }
    return r < 0 ? r : buf_add(b, "\"", 1);
}

int json_text_add_harmless(struct buf *b, const char *text, size_t n)
{
    size_t clean = 0; /* all before this is in the buffer */
    int r = 0;

    for (size_t i = 0; r == 0 && i < n; i++) {
        unsigned control = terminal_control(text + i, n - i);

        if (control != 0) {
            r = buf_add(b, text + clean, i - clean);
            r = r < 0 ? r : buf_printf(b, "\\u%04x", control);
            i += control > 0x7f;
            clean = i + 1;
        }
    }
    return r < 0 ? r : buf_add(b, text + clean, n - clean);
}

size_t json_text_scalar_len(const char *p, const char *end)
{
    const char *at = p;

    if (*at != '"') {
        while (at < end && strchr(",]} \t\r\n", *at) == NULL) {
            at++;
        }
        return (size_t)(at - p);
    }
    for (at++; at < end && *at != '"'; at++) {
        at += *at == '\\';
    }
    return MIN((size_t)(at - p) + 1, (size_t)(end - p));
}

static int new_line(struct buf *b, size_t depth)
{
    return buf_printf(b, "\n%*s", (int)(depth * INDENT), "");
}

static const char *skip_space(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\r' || *p == '\n')) {
        p++;
    }
    return p;
}

/*
 * Writes the bracket, comma or colon at p with the white space around it. Returns what follows it.
 */
static const char *add_mark(struct buf *b, const char *p, const char *end, size_t *depth, int *r)
{
    bool opens = *p == '{' || *p == '[';
    bool closes = *p == '}' || *p == ']';

    if (closes) {
        (*depth)--;
        *r = new_line(b, *depth);
    }
    *r = *r < 0 ? *r : buf_add(b, p, 1);
    if (*p == ':') {
        *r = *r < 0 ? *r : buf_add(b, " ", 1);
    }
    const char *next = skip_space(p + 1, end);
    if (opens && next < end && (*next == '}' || *next == ']')) {
        *r = *r < 0 ? *r : buf_add(b, next, 1); /* an empty object or array stays on its line */
        return next + 1;
    }
    if (opens || *p == ',') {
        *depth += opens;
        *r = *r < 0 ? *r : new_line(b, *depth);
    }
    return next;
}

int json_text_add_indented(struct buf *b, const char *text, size_t n)
{
    const char *end = text + n;
    const char *p = skip_space(text, end);
    size_t depth = 0;
    int r = 0;

    while (r == 0 && p < end) {
        if (strchr("{}[],:", *p) != NULL) {
            p = add_mark(b, p, end, &depth, &r);
        } else {
            size_t len = json_text_scalar_len(p, end);

            r = json_text_add_harmless(b, p, len);
            p += len;
        }
        p = skip_space(p, end);
    }
    return r;
}
