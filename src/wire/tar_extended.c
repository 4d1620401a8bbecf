/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Extended headers of tar streams: pax records and GNU's long names; see tar_impl.h. Reads hostile
 * bytes.
 */
#include <errno.h>
#include <string.h>

#include "base/parse.h"
#include "base/str.h"
#include "wire/tar_impl.h"

int tar_refuse(struct tar_reader *r, const char *problem)
{
    r->problem = problem;
    return -EBADMSG;
}

static int take_text(struct tar_reader *r, const char *text, size_t n, bool link)
{
    char *into = link ? r->link : r->name;

    if (n == 0 || n > FILES_PATH_MAX || memchr(text, '\0', n) != NULL) {
        return tar_refuse(r, "a name in an extended header is empty or too long");
    }
    memcpy(into, text, n);
    into[n] = '\0';
    r->has_name = r->has_name || !link;
    r->has_link = r->has_link || link;
    return 0;
}

/* One record of a pax header: key and value, NUL-terminated. */
static int take_record(struct tar_reader *r, const char *key, const char *value, size_t len)
{
    char number[24];

    if (str_eq(key, "mtime")) {
        size_t n = strcspn(value, "."); /* fractions are dropped */
        uint64_t seconds;
        bool minus = value[0] == '-';
        if (n - minus >= sizeof(number)) {
            return tar_refuse(r, "a time in an extended header is malformed");
        }
        memcpy(number, value + minus, n - minus);
        number[n - minus] = '\0';
        if (parse_u64(number, &seconds) < 0 || seconds > INT64_MAX) {
            return tar_refuse(r, "a time in an extended header is malformed");
        }
        r->mtime = minus ? -(int64_t)seconds : (int64_t)seconds;
        r->has_mtime = r->type == 'x';
        return 0;
    }
    bool name = str_eq(key, "path");
    bool link = str_eq(key, "linkpath");
    bool size = str_eq(key, "size");
    if (str_starts(key, "GNU.sparse.") || ((name || link || size) && r->type == 'g')) {
        return tar_refuse(r, "sparse files and names for all entries are not supported");
    }
    if (size) {
        r->has_size = true;
        return parse_u64(value, &r->size) < 0 || r->size > INT64_MAX
                   ? tar_refuse(r, "a size in an extended header is malformed")
                   : 0;
    }
    return name || link ? take_text(r, value, len, link) : 0; /* owners and the like: ignored */
}

/* Walks the records of a pax header: "LENGTH key=value\n". */
static int take_records(struct tar_reader *r)
{
    char *p = r->extended.data;
    size_t left = r->extended.len;

    while (left > 0) {
        size_t len = 0;
        size_t digits = 0;
        while (digits < left && digits < 6 && p[digits] >= '0' && p[digits] <= '9') {
            len = len * 10 + (size_t)(p[digits++] - '0');
        }
        if (digits == 0 || len > left || len < digits + 4 || p[digits] != ' ' ||
            p[len - 1] != '\n') {
            return tar_refuse(r, "an extended header is malformed");
        }
        char *key = p + digits + 1;
        char *value = memchr(key, '=', len - digits - 2);
        if (value == NULL) {
            return tar_refuse(r, "an extended header is malformed");
        }
        *value++ = '\0';
        p[len - 1] = '\0';
        int e = take_record(r, key, value, (size_t)(p + len - 1 - value));
        if (e < 0) {
            return e;
        }
        p += len;
        left -= len;
    }
    return 0;
}

int tar_take_extended(struct tar_reader *r)
{
    if (r->type == 'x' || r->type == 'g') {
        return take_records(r);
    }
    size_t n = r->extended.len;
    while (n > 0 && r->extended.data[n - 1] == '\0') {
        n--;
    }
    return take_text(r, r->extended.data, n, r->type == 'K');
}
