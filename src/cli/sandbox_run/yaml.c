/* SPDX-License-Identifier: Apache-2.0 */
/*
 * YAML from JSON text; see yaml.h.
 *
 * A collection inside a list starts on the line of its dash, one inside a mapping on the next line:
 *
 *     key:
 *       - a: 1
 *         b: 2
 *
 * Nesting is bounded by the JSON checker, which refuses text deeper than its own limit.
 */
#include "cli/sandbox_run/yaml.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"
#include "cli/common/json_text.h"

#define PLAIN_MAX 200
#define SIMPLE_KEY_MAX 1000 /* YAML allows 1024 characters before the colon */

struct walk {
    const char *p;
    const char *end;
    struct buf *out;
};

static int add_value(struct walk *w, int indent, bool in_list);

static void skip_space(struct walk *w)
{
    while (w->p < w->end && strchr(" \t\r\n", *w->p) != NULL && *w->p != '\0') {
        w->p++;
    }
}

/* Moves past c if it comes next. */
static bool take(struct walk *w, char c)
{
    skip_space(w);
    if (w->p < w->end && *w->p == c) {
        w->p++;
        return true;
    }
    return false;
}

/* Words that some version of YAML does not read as text. */
static bool is_reserved(const char *s)
{
    static const char *const words[] = {"true", "false", "yes", "no",  "on",
                                        "off",  "y",     "n",   "null"};

    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (strcasecmp(s, words[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Narrow on purpose: a letter, then letters, digits, "_./-" and single spaces. */
static bool is_plain(const char *s, size_t n)
{
    if (n == 0 || n > PLAIN_MAX || strlen(s) != n || !(isascii(s[0]) && isalpha(s[0])) ||
        s[n - 1] == ' ' || is_reserved(s)) {
        return false;
    }
    for (size_t i = 1; i < n; i++) {
        bool ok = isascii(s[i]) && (isalnum(s[i]) || strchr("_./-", s[i]) != NULL);

        if (!ok && !(s[i] == ' ' && s[i - 1] != ' ')) {
            return false;
        }
    }
    return true;
}

static unsigned code_point(const char *p, size_t len)
{
    const unsigned char *s = (const unsigned char *)p;
    unsigned v = len == 1 ? s[0] : s[0] & (0x7fu >> len);

    for (size_t i = 1; i < len; i++) {
        v = v << 6 | (s[i] & 0x3f);
    }
    return v;
}

/* Characters that YAML forbids, or that some readers take for a line break. */
static bool needs_escape(unsigned c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029 || c == 0xfeff ||
           c == 0xfffe || c == 0xffff;
}

static int add_quoted_char(struct buf *b, const char *p, size_t len)
{
    unsigned c = code_point(p, len);

    if (c == '"' || c == '\\') {
        return buf_printf(b, "\\%c", (char)c);
    }
    if (c == '\n') {
        return buf_add_str(b, "\\n");
    }
    if (c == '\t') {
        return buf_add_str(b, "\\t");
    }
    if (needs_escape(c)) {
        return buf_printf(b, c < 0x100 ? "\\x%02x" : "\\u%04x", c);
    }
    return buf_add(b, p, len);
}

static int add_string(struct buf *b, const char *s, size_t n)
{
    if (is_plain(s, n)) {
        return buf_add(b, s, n);
    }
    int r = buf_add(b, "\"", 1);
    for (size_t i = 0; r == 0 && i < n;) {
        size_t len = str_utf8_len(s + i, n - i);

        if (len == 0) {
            return -EILSEQ;
        }
        r = add_quoted_char(b, s + i, len);
        i += len;
    }
    return r < 0 ? r : buf_add(b, "\"", 1);
}

static int add_scalar(struct walk *w)
{
    skip_space(w);

    const char *text = w->p;
    size_t n = json_text_scalar_len(text, w->end);
    w->p += n;
    if (*text != '"') {
        return buf_add(w->out, text, n);
    }

    json_t *value = json_loadb(text, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (value == NULL) {
        return -EINVAL;
    }
    int r = add_string(w->out, json_string_value(value), json_string_length(value));
    json_decref(value);
    return r;
}

static int new_line(struct walk *w, int indent)
{
    return buf_printf(w->out, "\n%*s", indent, "");
}

static int add_list(struct walk *w, int indent, bool on_this_line)
{
    bool first = on_this_line;
    int r = 0;

    do {
        r = first ? 0 : new_line(w, indent);
        r = r < 0 ? r : buf_add_str(w->out, "-");
        r = r < 0 ? r : add_value(w, indent + 2, true);
        first = false;
    } while (r == 0 && take(w, ','));
    return r == 0 && !take(w, ']') ? -EINVAL : r;
}

/* "key:", or "? key" and ":" below it when the key is too long for the short form. */
static int add_key(struct walk *w, int indent, bool *ret_long)
{
    AUTO_BUF struct buf key = BUF_INIT(w->out->max);
    struct walk sub = {.p = w->p, .end = w->end, .out = &key};

    int r = add_scalar(&sub);
    if (r < 0) {
        return r;
    }
    w->p = sub.p;
    *ret_long = key.len > SIMPLE_KEY_MAX;
    if (!*ret_long) {
        return buf_printf(w->out, "%s:", key.data);
    }
    r = buf_add_str(w->out, "? ");
    r = r < 0 ? r : buf_add(w->out, key.data, key.len);
    r = r < 0 ? r : new_line(w, indent);
    return r < 0 ? r : buf_add_str(w->out, ":");
}

static int add_mapping(struct walk *w, int indent, bool on_this_line)
{
    bool first = on_this_line;
    bool is_long = false;
    int r = 0;

    do {
        r = first ? 0 : new_line(w, indent);
        r = r < 0 ? r : add_key(w, indent, &is_long);
        if (r == 0 && !take(w, ':')) {
            return -EINVAL;
        }
        r = r < 0 ? r : add_value(w, indent + 2, is_long);
        first = false;
    } while (r == 0 && take(w, ','));
    return r == 0 && !take(w, '}') ? -EINVAL : r;
}

/* Writes what follows a dash or a colon. A collection starts on this line only after a dash. */
static int add_value(struct walk *w, int indent, bool in_list)
{
    bool is_list = take(w, '[');
    bool is_mapping = !is_list && take(w, '{');
    int r = 0;

    if (is_list && take(w, ']')) {
        return buf_add_str(w->out, " []");
    }
    if (is_mapping && take(w, '}')) {
        return buf_add_str(w->out, " {}");
    }
    if (in_list || !(is_list || is_mapping)) {
        r = buf_add_str(w->out, " ");
    }
    if (r < 0) {
        return r;
    }
    if (is_list) {
        return add_list(w, indent, in_list);
    }
    return is_mapping ? add_mapping(w, indent, in_list) : add_scalar(w);
}

int yaml_add(struct buf *b, const char *json, size_t n)
{
    AUTO_BUF struct buf out = BUF_INIT(b->max);
    struct walk w = {.p = json, .end = json + n, .out = &out};

    /* As after a dash, but flush left; the space before it is dropped. */
    int r = add_value(&w, 0, true);
    if (r < 0) {
        return r;
    }
    r = buf_add(b, out.data + 1, out.len - 1);
    return r < 0 ? r : buf_add(b, "\n", 1);
}
