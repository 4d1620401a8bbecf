/* SPDX-License-Identifier: Apache-2.0 */
/* Request targets; see target.h. */
#include "http/target.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"
#include "http/field.h"

/*
 * pchar of RFC 3986 without '%', and '/': letters, digits and -._~!$&'()*+,;=:@/ as one bit per
 * ASCII character.
 */
static const uint64_t path_chars[2] = {0x2fffffd200000000U, 0x47fffffe87ffffffU};

/* What browsers leave as it is in a query (URL standard, "query percent-encode set"). */
static bool is_query_char(char c)
{
    return c > 0x20 && c < 0x7f && c != '"' && c != '#' && c != '<' && c != '>' && c != '%';
}

/* The byte that "%XY" at p stands for; -1 if it is malformed or NUL. */
static int decode_byte(const char *p)
{
    int high = http_hex_digit(p[1]);
    int low = high < 0 ? -1 : http_hex_digit(p[2]);
    int byte = high * 16 + low;

    return low < 0 || byte == 0 ? -1 : byte;
}

/* Also between encoded slashes: what is read from them is a path as well. */
static bool has_dot_segment(const char *path)
{
    static const char slashes[] = {'/', HTTP_ENCODED_SLASH, '\0'};

    for (const char *p = path; *p != '\0';) {
        size_t n = strcspn(++p, slashes);
        if ((n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.')) {
            return true;
        }
        p += n;
    }
    return false;
}

/* Decodes up to the query or the end. Returns where it stopped, or NULL. */
static const char *decode_path(const char *raw, struct http_target *t)
{
    const char *p = raw;
    size_t n = 0;

    while (*p != '\0' && *p != '?') {
        int byte = (uint8_t)*p;
        if (byte == '%') {
            byte = decode_byte(p);
            if (byte < 0x20 || byte == 0x7f) {
                return NULL;
            }
            byte = byte == '/' ? HTTP_ENCODED_SLASH : byte;
            p += 2;
        } else if (!http_is_in(path_chars, *p)) {
            return NULL;
        }
        t->path[n++] = (char)byte;
        p++;
    }
    t->path[n] = '\0';
    t->path_len = n;
    return str_is_utf8(t->path, n) && !has_dot_segment(t->path) ? p : NULL;
}

/* Decodes a name or value up to one of the stop characters and ends it with NUL. */
static const char *decode_part(const char *p, const char *stop, struct http_target *t)
{
    size_t start = t->query_len;
    size_t n = start;

    while (*p != '\0' && strchr(stop, *p) == NULL) {
        int byte = *p == '+' ? ' ' : (uint8_t)*p;
        if (byte == '%') {
            byte = decode_byte(p);
            if (byte < 0) {
                return NULL;
            }
            p += 2;
        } else if (!is_query_char(*p)) {
            return NULL;
        }
        t->query[n++] = (char)byte;
        p++;
    }
    t->query[n] = '\0';
    t->query_len = n + 1;
    return str_is_utf8(t->query + start, n - start) ? p : NULL;
}

static int decode_query(const char *p, struct http_target *t)
{
    while (*p != '\0') {
        if (*p == '&') {
            p++;
            continue;
        }
        p = decode_part(p, "=&", t);
        if (p == NULL) {
            return 400;
        }
        p = decode_part(*p == '=' ? p + 1 : p, "&", t);
        if (p == NULL) {
            return 400;
        }
    }
    return 0;
}

/* The part of an absolute target after its authority, which must equal the Host; else NULL. */
static const char *behind_authority(const char *raw, const char *host)
{
    const char *p = NULL;

    if (strncasecmp(raw, "http://", 7) == 0) {
        p = raw + 7;
    } else if (strncasecmp(raw, "https://", 8) == 0) {
        p = raw + 8;
    }
    size_t n = p == NULL ? 0 : strcspn(p, "/?");
    if (n == 0 || n != strlen(host) || strncasecmp(p, host, n) != 0) {
        return NULL;
    }
    return p + n;
}

int http_target_split(const char *raw, enum http_method method, const char *host,
                      struct http_target *ret)
{
    ret->query_len = 0;
    if (raw[0] == '*' && raw[1] == '\0' && method == HTTP_OPTIONS) {
        memcpy(ret->path, "*", 2);
        ret->path_len = 1;
        return 0;
    }
    const char *p = raw[0] == '/' ? raw : behind_authority(raw, host);
    if (p == NULL) {
        return 400;
    }
    if (*p == '/') {
        p = decode_path(p, ret);
    } else {
        memcpy(ret->path, "/", 2);
        ret->path_len = 1;
    }
    if (p == NULL) {
        return 400;
    }
    return *p == '?' ? decode_query(p + 1, ret) : 0;
}

bool http_target_next(const struct http_target *t, size_t *at, const char **ret_name,
                      const char **ret_value)
{
    if (*at >= t->query_len) {
        return false;
    }
    *ret_name = t->query + *at;
    *ret_value = *ret_name + strlen(*ret_name) + 1;
    *at = (size_t)(*ret_value + strlen(*ret_value) + 1 - t->query);
    return true;
}
