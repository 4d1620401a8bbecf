/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditional and partial answers for a file of known size, time and strong ETag (RFC 9110, 13 and
 * 14). Pure. One range only: a client that asks for several gets the whole file, as the standard
 * allows.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define HTTP_ETAG_SIZE 56

/* What the client sent; each is the field's value or NULL. */
struct http_conditions {
    const char *if_match;
    const char *if_none_match;
    const char *if_modified_since;
    const char *if_unmodified_since;
    const char *if_range;
    const char *range; /* to be left NULL for other methods than GET */
};

struct http_selection {
    int status;      /* 200, 206, 304, 412, 416 */
    uint64_t first;  /* first byte and number of bytes to send; the whole file for 200 */
    uint64_t length; /* 0 for 304, 412, 416 */
};

/*
 * Strong: changes whenever the file does, as far as the kernel reports it. Quotes included.
 * changed: the time when its content, or better anything about it, last changed.
 */
void http_etag(uint64_t size, struct timespec changed, uint64_t inode, char dst[HTTP_ETAG_SIZE]);

/* etag as made by http_etag(); modified in whole seconds. */
struct http_selection http_select(const struct http_conditions *c, uint64_t size, const char *etag,
                                  time_t modified);
