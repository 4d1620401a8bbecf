/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Multipart bodies; see multipart.h.
 *
 * The body is treated as if CR LF preceded it, so that the first delimiter looks like all others.
 * While reading data, `matched` bytes of a possible delimiter are held back; when the match breaks
 * they are passed on as data. A CR can only be the first byte of a delimiter, so after a broken
 * match the search restarts at the current byte and never looks back.
 */
#include "http/multipart.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/str.h"
#include "http/field.h"

enum state {
    STATE_PREFIX, /* the first delimiter */
    STATE_AFTER,  /* behind a delimiter: CR of the next part, or the first '-' of the end */
    STATE_AFTER_LF,
    STATE_HEAD,
    STATE_DATA,
    STATE_END_DASH,
    STATE_EPILOGUE, /* behind "--": nothing, or one CR LF */
    STATE_EPILOGUE_LF,
    STATE_DONE,
    STATE_BROKEN,
};

static int broken(struct http_multipart *m, const char *why)
{
    m->state = STATE_BROKEN;
    m->why = why;
    return -1;
}

/* bchars of RFC 2046; a blank may not be the last. */
static bool is_boundary(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool is_alnum = (s[i] >= '0' && s[i] <= '9') || (s[i] >= 'a' && s[i] <= 'z') ||
                        (s[i] >= 'A' && s[i] <= 'Z');
        if (!is_alnum && strchr("'()+_,-./:=? ", s[i]) == NULL) {
            return false;
        }
    }
    return n > 0 && s[n - 1] != ' ';
}

int http_multipart_init(struct http_multipart *m, const char *content_type, unsigned max_parts,
                        const struct http_multipart_calls *calls, void *user)
{
    char boundary[HTTP_BOUNDARY_MAX + 1];

    m->calls = calls;
    m->user = user;
    m->parts_left = max_parts;
    m->head_len = 0;
    if (content_type == NULL || !http_type_is(content_type, "multipart/form-data")) {
        return broken(m, "the body must be multipart/form-data");
    }
    int n = http_param(content_type, "boundary", boundary, sizeof(boundary));
    if (n <= 0 || !is_boundary(boundary, (size_t)n)) {
        return broken(m, "missing or malformed boundary");
    }
    str_format(m->delimiter, sizeof(m->delimiter), "\r\n--%s", boundary);
    m->delimiter_len = (size_t)n + 4;
    m->matched = 2;
    m->state = STATE_PREFIX;
    m->why = NULL;
    return 0;
}

static bool is_clean_text(const char *s)
{
    size_t n = strlen(s);

    for (size_t i = 0; i < n;) {
        size_t len = str_utf8_len(s + i, n - i);
        if (len == 0 || (uint8_t)s[i] < 0x20 || s[i] == 0x7f) {
            return false;
        }
        i += len;
    }
    return true;
}

/* filename*=UTF-8''na%C3%AFve.txt (RFC 8187): what some clients send for names beyond ASCII. */
static int decode_extended(const char *value, char *dst, size_t size)
{
    size_t n = 0;

    if (strncasecmp(value, "utf-8'", 6) != 0) {
        return -1;
    }
    const char *p = strchr(value + 6, '\'');
    if (p == NULL) {
        return -1;
    }
    for (p++; *p != '\0'; p++) {
        int byte = (uint8_t)*p;
        if (byte == '%') {
            int high = http_hex_digit(p[1]);
            int low = high < 0 ? -1 : http_hex_digit(p[2]);
            byte = high * 16 + low;
            if (low < 0 || byte == 0) {
                return -1;
            }
            p += 2;
        }
        if (n + 1 >= size) {
            return -1;
        }
        dst[n++] = (char)byte;
    }
    dst[n] = '\0';
    return 0;
}

static int take_disposition(struct http_multipart *m, const char *value)
{
    struct http_part *part = &m->part;
    char extended[HTTP_PART_TEXT_MAX * 3];

    if (!http_type_is(value, "form-data") || part->name[0] != '\0') {
        return broken(m, "a part needs one Content-Disposition: form-data");
    }
    int name = http_param(value, "name", part->name, sizeof(part->name));
    int filename = http_param(value, "filename", part->filename, sizeof(part->filename));
    int star = http_param(value, "filename*", extended, sizeof(extended));
    if (name <= 0 || filename == -2 || star == -2) {
        return broken(m, "malformed Content-Disposition of a part");
    }
    if (star >= 0 && decode_extended(extended, part->filename, sizeof(part->filename)) < 0) {
        return broken(m, "malformed filename* of a part");
    }
    part->has_filename = filename >= 0 || star >= 0;
    if (!is_clean_text(part->name) || !is_clean_text(part->filename)) {
        return broken(m, "name or file name of a part is not clean UTF-8");
    }
    return 0;
}

static int take_part_field(struct http_multipart *m, char *line)
{
    char *colon = strchr(line, ':');

    if (colon == NULL || !http_is_token(line, (size_t)(colon - line))) {
        return broken(m, "malformed header of a part");
    }
    *colon = '\0';
    char *value = colon + 1 + strspn(colon + 1, " \t");
    if (!http_is_value(value, strlen(value))) {
        return broken(m, "control byte in the header of a part");
    }
    if (strcasecmp(line, "content-disposition") == 0) {
        return take_disposition(m, value);
    }
    if (strcasecmp(line, "content-type") == 0 &&
        str_copy(m->part.type, sizeof(m->part.type), value) < 0) {
        return broken(m, "Content-Type of a part is too long");
    }
    return 0;
}

/* m->head holds lines with their CR LF, the empty one included. */
static int parse_part_head(struct http_multipart *m)
{
    m->part = (struct http_part){.type = "text/plain"};
    if (memchr(m->head, '\0', m->head_len) != NULL) {
        return broken(m, "control byte in the header of a part");
    }
    m->head[m->head_len] = '\0';
    for (char *line = m->head; !str_starts(line, "\r\n");) {
        char *end = strstr(line, "\r\n"); /* there is one: the head ends with it */
        *end = '\0';
        if (take_part_field(m, line) < 0) {
            return -1;
        }
        line = end + 2;
    }
    if (m->part.name[0] == '\0') {
        return broken(m, "a part needs one Content-Disposition: form-data");
    }
    if (m->parts_left == 0) {
        return broken(m, "too many parts");
    }
    m->parts_left--;
    m->head_len = 0;
    m->state = STATE_DATA;
    return m->calls->on_part(m->user, &m->part);
}

/* Collects the head of a part up to its empty line. Returns bytes used, or -1. */
static ssize_t feed_head(struct http_multipart *m, const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (m->head_len == HTTP_PART_HEAD_MAX) {
            return broken(m, "header of a part is too long");
        }
        m->head[m->head_len++] = data[i];
        /* Without any field the empty line stands alone. */
        bool is_end = m->head_len == 2 ? memcmp(m->head, "\r\n", 2) == 0
                                       : m->head_len >= 4 &&
                                             memcmp(m->head + m->head_len - 4, "\r\n\r\n", 4) == 0;
        if (is_end) {
            return parse_part_head(m) < 0 ? -1 : (ssize_t)i + 1;
        }
    }
    return (ssize_t)len;
}

/* Data up to the next delimiter or the end of the input. Returns bytes used, or -1. */
static ssize_t feed_data(struct http_multipart *m, const char *data, size_t len)
{
    size_t i = 0;

    if (m->matched == 0) { /* the common case: no delimiter can start before the next CR */
        const char *cr = memchr(data, '\r', len);
        i = cr == NULL ? len : (size_t)(cr - data);
        if (i > 0 && m->calls->on_data(m->user, data, i) < 0) {
            return -1;
        }
    }
    for (; i < len; i++) {
        if (data[i] == m->delimiter[m->matched]) {
            if (++m->matched == m->delimiter_len) {
                m->matched = 0;
                m->state = STATE_AFTER;
                return m->calls->on_part_end(m->user) < 0 ? -1 : (ssize_t)i + 1;
            }
            continue;
        }
        size_t held = m->matched;
        m->matched = 0;
        if (held > 0 && m->calls->on_data(m->user, m->delimiter, held) < 0) {
            return -1;
        }
        return (ssize_t)i; /* looks at this byte again, without a match */
    }
    return (ssize_t)len;
}

/* The single bytes around delimiters. */
static int feed_byte(struct http_multipart *m, char byte)
{
    switch (m->state) {
    case STATE_PREFIX:
        if (byte != m->delimiter[m->matched]) {
            return broken(m, "the body does not begin with its boundary");
        }
        if (++m->matched == m->delimiter_len) {
            m->matched = 0;
            m->state = STATE_AFTER;
        }
        return 0;
    case STATE_AFTER:
        m->state = byte == '\r' ? STATE_AFTER_LF : STATE_END_DASH;
        return byte == '\r' || byte == '-' ? 0 : broken(m, "malformed line of a boundary");
    case STATE_AFTER_LF:
        m->state = STATE_HEAD;
        return byte == '\n' ? 0 : broken(m, "malformed line of a boundary");
    case STATE_END_DASH:
        m->state = STATE_EPILOGUE;
        return byte == '-' ? 0 : broken(m, "malformed line of a boundary");
    case STATE_EPILOGUE:
        m->state = STATE_EPILOGUE_LF;
        return byte == '\r' ? 0 : broken(m, "data behind the last boundary");
    case STATE_EPILOGUE_LF:
        m->state = STATE_DONE;
        return byte == '\n' ? 0 : broken(m, "data behind the last boundary");
    default:
        return broken(m, "data behind the last boundary");
    }
}

int http_multipart_feed(struct http_multipart *m, const char *data, size_t len)
{
    for (size_t i = 0; i < len;) {
        ssize_t used = 1;
        if (m->state == STATE_BROKEN) {
            return -1;
        }
        if (m->state == STATE_HEAD) {
            used = feed_head(m, data + i, len - i);
        } else if (m->state == STATE_DATA) {
            used = feed_data(m, data + i, len - i);
        } else if (feed_byte(m, data[i]) < 0) {
            used = -1;
        }
        if (used < 0) {
            m->state = STATE_BROKEN;
            return -1;
        }
        i += (size_t)used;
    }
    return 0;
}

int http_multipart_finish(struct http_multipart *m)
{
    if (m->state == STATE_BROKEN) {
        return -1;
    }
    if (m->state != STATE_EPILOGUE && m->state != STATE_DONE) {
        return broken(m, "the body ends before its last boundary");
    }
    return 0;
}
