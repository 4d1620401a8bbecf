/* SPDX-License-Identifier: Apache-2.0 */
/* Conditions and ranges; see range.h. */
#include "http/range.h"

#include <inttypes.h>
#include <string.h>

#include "base/attr.h"
#include "base/str.h"
#include "base/units.h"
#include "http/date.h"

void http_etag(uint64_t size, struct timespec changed, uint64_t inode, char dst[HTTP_ETAG_SIZE])
{
    uint64_t ns = (uint64_t)changed.tv_sec * NS_PER_SEC + (uint64_t)changed.tv_nsec;

    str_format(dst, HTTP_ETAG_SIZE, "\"%" PRIx64 "-%" PRIx64 "-%" PRIx64 "\"", ns, size, inode);
}

/*
 * True if the list holds the tag, or is "*". Weak comparison takes W/"x" for "x"; strong does not,
 * as then the bytes may differ.
 */
static bool lists_tag(const char *list, const char *etag, bool is_weak_enough)
{
    size_t want = strlen(etag);

    if (str_eq(list, "*")) {
        return true;
    }
    for (const char *p = list; *p != '\0';) {
        p += strspn(p, ", \t");
        bool is_weak = str_starts(p, "W/");
        p += is_weak ? 2 : 0;
        if (*p != '"') {
            return false;
        }
        const char *end = strchr(p + 1, '"');
        if (end == NULL) {
            return false;
        }
        if ((!is_weak || is_weak_enough) && (size_t)(end + 1 - p) == want &&
            memcmp(p, etag, want) == 0) {
            return true;
        }
        p = end + 1;
    }
    return false;
}

static bool is_date_at_least(const char *value, time_t modified)
{
    time_t t;

    return http_date_parse(value, &t) && modified <= t;
}

/* RFC 9110, 13.2.2. 0 when the request is to be carried out. */
static int precondition(const struct http_conditions *c, const char *etag, time_t modified)
{
    time_t t;

    if (c->if_match != NULL) {
        if (!lists_tag(c->if_match, etag, false)) {
            return 412;
        }
    } else if (c->if_unmodified_since != NULL && http_date_parse(c->if_unmodified_since, &t) &&
               modified > t) {
        return 412;
    }
    if (c->if_none_match != NULL) {
        return lists_tag(c->if_none_match, etag, true) ? 304 : 0;
    }
    return c->if_modified_since != NULL && is_date_at_least(c->if_modified_since, modified) ? 304
                                                                                            : 0;
}

/* Digits at *p as a number that stops at UINT64_MAX; false if there is none. */
static bool read_number(const char **p, uint64_t *ret)
{
    const char *start = *p;
    uint64_t value = 0;

    for (; **p >= '0' && **p <= '9'; (*p)++) {
        if (__builtin_mul_overflow(value, (uint64_t)10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(**p - '0'), &value)) {
            value = UINT64_MAX;
        }
    }
    *ret = value;
    return *p > start;
}

/* True if the value is one well-formed range; *ret says what it selects, or 416. */
static bool parse_range(const char *value, uint64_t size, struct http_selection *ret)
{
    const char *p = value;
    uint64_t first = 0;
    uint64_t last = UINT64_MAX;

    if (!str_starts(p, "bytes=")) {
        return false;
    }
    p += strlen("bytes=");
    bool has_first = read_number(&p, &first);
    if (*p++ != '-') {
        return false;
    }
    bool has_last = read_number(&p, &last);
    if (*p != '\0' || (!has_first && !has_last) || (has_first && has_last && last < first)) {
        return false;
    }
    if (!has_first) { /* the last bytes of the file */
        uint64_t n = MIN(last, size);
        *ret = (struct http_selection){n > 0 ? 206 : 416, size - n, n};
        return true;
    }
    if (first >= size) {
        *ret = (struct http_selection){416, 0, 0};
        return true;
    }
    last = has_last ? MIN(last, size - 1) : size - 1;
    *ret = (struct http_selection){206, first, last - first + 1};
    return true;
}

/* True if the file is still the one that the client has a part of. */
static bool if_range_holds(const char *value, const char *etag, time_t modified)
{
    time_t t;

    if (value == NULL) {
        return true;
    }
    if (value[0] == '"') {
        return str_eq(value, etag);
    }
    return http_date_parse(value, &t) && t == modified;
}

struct http_selection http_select(const struct http_conditions *c, uint64_t size, const char *etag,
                                  time_t modified)
{
    struct http_selection all = {200, 0, size};
    struct http_selection part;

    int status = precondition(c, etag, modified);
    if (status != 0) {
        return (struct http_selection){status, 0, 0};
    }
    if (c->range != NULL && if_range_holds(c->if_range, etag, modified) &&
        parse_range(c->range, size, &part)) {
        return part;
    }
    return all;
}
