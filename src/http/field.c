/* SPDX-License-Identifier: Apache-2.0 */
/* Grammar of header fields; see field.h. */
#include "http/field.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "base/attr.h"

bool http_is_in(const uint64_t set[2], char c)
{
    uint8_t byte = (uint8_t)c;

    return byte < 128 && (set[byte / 64] >> (byte % 64) & 1) != 0;
}

/* tchar of RFC 9110: letters, digits and !#$%&'*+-.^_`|~ as one bit per ASCII character. */
static const uint64_t token_chars[2] = {0x03ff6cfa00000000U, 0x57ffffffc7fffffeU};

bool http_is_token(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!http_is_in(token_chars, s[i])) {
            return false;
        }
    }
    return n > 0;
}

bool http_is_value(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint8_t c = (uint8_t)s[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f) {
            return false;
        }
    }
    return true;
}

int http_hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool http_list_has(const char *list, const char *token)
{
    size_t want = strlen(token);

    for (const char *p = list; *p != '\0';) {
        p += strspn(p, ", \t");
        size_t n = strcspn(p, ",");
        size_t len = n;
        while (len > 0 && (p[len - 1] == ' ' || p[len - 1] == '\t')) {
            len--;
        }
        if (len == want && strncasecmp(p, token, want) == 0) {
            return true;
        }
        p += n;
    }
    return false;
}

bool http_type_is(const char *value, const char *type)
{
    size_t n = strlen(type);

    if (strncasecmp(value, type, n) != 0) {
        return false;
    }
    value += n;
    value += strspn(value, " \t");
    return *value == '\0' || *value == ';';
}

/*
 * Reads a quoted string after its opening quote. Returns what follows the closing quote, or NULL.
 * Only \" and \\ are escapes: Windows browsers send file names with single backslashes. Without dst
 * the string is skipped.
 */
static const char *read_quoted(const char *p, char *dst, size_t size, size_t *ret_len)
{
    size_t n = 0;

    while (*p != '"') {
        if (*p == '\\' && (p[1] == '"' || p[1] == '\\')) {
            p++;
        }
        if (*p == '\0' || n + 1 >= size) {
            return NULL;
        }
        if (dst != NULL) {
            dst[n] = *p;
        }
        n++;
        p++;
    }
    *ret_len = n;
    return p + 1;
}

/* Reads "value" or value at p. Returns what follows, or NULL. */
static const char *read_value(const char *p, char *dst, size_t size, size_t *ret_len)
{
    if (*p == '"') {
        return read_quoted(p + 1, dst, size, ret_len);
    }
    size_t n = strcspn(p, "; \t");
    if (!http_is_token(p, n) || n + 1 > size) {
        return NULL;
    }
    if (dst != NULL) {
        memcpy(dst, p, n);
    }
    *ret_len = n;
    return p + n;
}

int http_param(const char *value, const char *name, char *dst, size_t size)
{
    size_t want = strlen(name);
    int found = -1;
    const char *p = value + strcspn(value, ";");

    while (*p == ';') {
        p++;
        p += strspn(p, " \t");
        if (*p == '\0') {
            break;
        }
        size_t n = strcspn(p, "=; \t\"");
        if (!http_is_token(p, n) || p[n] != '=') {
            return -2;
        }
        bool is_it = n == want && strncasecmp(p, name, n) == 0;
        if (is_it && found >= 0) {
            return -2;
        }
        size_t len = 0;
        p = read_value(p + n + 1, is_it ? dst : NULL, is_it ? size : SIZE_MAX, &len);
        if (p == NULL) {
            return -2;
        }
        if (is_it) {
            dst[len] = '\0';
            found = (int)len;
        }
        p += strspn(p, " \t");
    }
    return *p == '\0' ? found : -2;
}
