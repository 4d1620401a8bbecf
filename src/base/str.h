/* SPDX-License-Identifier: Apache-2.0 */
/* Strings in fixed arrays, and text made safe to show. No allocation. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"

/* Copies whole or not at all: 0, or -E2BIG with dst left as an empty string. */
int str_copy(char *dst, size_t size, const char *src);
int str_format(char *dst, size_t size, const char *fmt, ...) PRINTF_LIKE(3, 4); /* likewise */

bool str_eq(const char *a, const char *b);
bool str_starts(const char *s, const char *prefix);

/* True if the array holds a NUL: what a fixed-size frame must prove before its text is used. */
bool str_is_terminated(const char *array, size_t size);

/* A name that is safe as a file name and in messages: [a-z0-9][a-z0-9._-]*, 1 to 63 bytes. */
bool str_is_name(const char *s);

/*
 * How much a parser would make of JSON text: what must be known before one that is recursive, and
 * takes memory for each value, reads it. Only what is outside strings counts.
 */
struct str_json_extent {
    size_t levels; /* of brackets, at the deepest place */
    size_t values; /* and names, but for a factor of two: brackets that open, commas and colons */
};
struct str_json_extent str_json_extent(const char *json, size_t n);

/* Length of the UTF-8 sequence that starts at p (1 to 4), or 0 if the bytes there are not UTF-8. */
size_t str_utf8_len(const char *p, size_t n);
bool str_is_utf8(const char *s, size_t n); /* all of it; so is nothing at all */

/* Copies src to dst with control characters shown as \xNN (newline and tab kept). Cuts to fit. */
void str_printable(char *dst, size_t size, const char *src, size_t n);
