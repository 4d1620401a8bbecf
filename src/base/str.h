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

/* True if the array holds a NUL: must be checked before text from a fixed-size frame is used. */
bool str_is_terminated(const char *array, size_t size);

/* A name that is safe as a file name and in messages: [a-z0-9][a-z0-9._-]*, 1 to 63 bytes. */
bool str_is_name(const char *s);

/*
 * The size of what a JSON parser would build from the text: checked before a parser that is
 * recursive and allocates for each value reads it. Brackets, commas and colons inside strings do
 * not count.
 */
struct str_json_extent {
    size_t levels; /* of nested brackets, at most */
    size_t values; /* and names, up to a factor of two: opening brackets, commas and colons */
};
struct str_json_extent str_json_extent(const char *json, size_t n);

/* Length of the UTF-8 sequence that starts at p (1 to 4), or 0 if the bytes there are not UTF-8. */
size_t str_utf8_len(const char *p, size_t n);
bool str_is_utf8(const char *s, size_t n); /* all of it; the empty string is */

/* Copies src to dst with control characters shown as \xNN (newline and tab stay). Cuts to fit. */
void str_printable(char *dst, size_t size, const char *src, size_t n);
