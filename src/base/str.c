/* SPDX-License-Identifier: Apache-2.0 */
/* Strings in fixed arrays; see str.h. Must not allocate: also used between fork and exec. */
#include "base/str.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/attr.h"

#define NAME_MAX_LEN 63

int str_copy(char *dst, size_t size, const char *src)
{
    size_t n = strlen(src);

    if (n >= size) {
        if (size > 0) {
            dst[0] = '\0';
        }
        return -E2BIG;
    }
    memcpy(dst, src, n + 1);
    return 0;
}

int str_format(char *dst, size_t size, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    int n = vsnprintf(dst, size, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= size) {
        if (size > 0) {
            dst[0] = '\0';
        }
        return -E2BIG;
    }
    return 0;
}

bool str_eq(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

bool str_starts(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool str_is_terminated(const char *array, size_t size)
{
    return memchr(array, '\0', size) != NULL;
}

static bool is_name_char(char c, bool first)
{
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) {
        return true;
    }
    return !first && (c == '.' || c == '_' || c == '-');
}

bool str_is_name(const char *s)
{
    size_t n = strlen(s);

    if (n == 0 || n > NAME_MAX_LEN) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (!is_name_char(s[i], i == 0)) {
            return false;
        }
    }
    return true;
}

struct str_json_extent str_json_extent(const char *json, size_t n)
{
    struct str_json_extent extent = {0};
    size_t depth = 0;
    bool in_string = false;

    for (size_t i = 0; i < n; i++) {
        char c = json[i];

        if (in_string) {
            if (c == '\\') {
                i++;
            }
            in_string = c != '"';
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            depth++;
            extent.values++;
            extent.levels = MAX(extent.levels, depth);
        } else if (c == ',' || c == ':') {
            extent.values++;
        } else if ((c == ']' || c == '}') && depth > 0) {
            depth--;
        }
    }
    return extent;
}

size_t str_utf8_len(const char *p, size_t n)
{
    const unsigned char *s = (const unsigned char *)p;

    if (n == 0) {
        return 0;
    }
    if (s[0] < 0x80) {
        return 1;
    }

    size_t len = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0xc2 || s[0] > 0xf4 || n < len) {
        return 0;
    }
    for (size_t i = 1; i < len; i++) {
        if ((s[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    /* Overlong forms, surrogates and code points above U+10FFFF. */
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f)) {
        return 0;
    }
    return len;
}

bool str_is_utf8(const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t len = str_utf8_len(s + i, n - i);
        if (len == 0) {
            return false;
        }
        i += len;
    }
    return true;
}

/* C0 except newline and tab, DEL, and C1 as UTF-8 (0xc2 0x80..0x9f) drive terminals. */
static bool is_control(const char *p, size_t len)
{
    unsigned char c = (unsigned char)p[0];

    if (len == 1) {
        return (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
    }
    return len == 2 && c == 0xc2 && (unsigned char)p[1] < 0xa0;
}

void str_printable(char *dst, size_t size, const char *src, size_t n)
{
    size_t out = 0;

    if (size == 0) {
        return;
    }
    for (size_t i = 0; i < n;) {
        size_t len = str_utf8_len(src + i, n - i);
        bool raw = len > 0 && !is_control(src + i, len);
        size_t need = raw ? len : 4 * (len == 0 ? 1 : len);

        if (out + need >= size) {
            break;
        }
        size_t step = len == 0 ? 1 : len;
        for (size_t k = 0; k < step; k++) {
            if (raw) {
                dst[out++] = src[i + k];
            } else {
                out += (size_t)snprintf(dst + out, 5, "\\x%02x", (unsigned char)src[i + k]);
            }
        }
        i += step;
    }
    dst[out] = '\0';
}
