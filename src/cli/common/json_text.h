/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON as text: written, checked and re-indented without a number type in between.
 *
 * A handler's value is printed with its own digits: 0.1 stays 0.1 and an integer keeps thirty
 * digits, which doubles and 64-bit integers would lose. jansson checks the syntax.
 *
 * Functions that write return 0 or -errno, as buf.h does.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

/*
 * Parses strictly: no duplicate keys, nothing after the value. Every number becomes a real, so that
 * integers can have any number of digits. NULL and *e on failure; `what` names the source.
 */
json_t *json_text_load(const char *text, size_t n, const char *what, struct err *e);

/* True if json_text_load() would accept it. */
bool json_text_is_valid(const char *text, size_t n);

/* Adds bytes as a JSON string. Invalid UTF-8 becomes U+FFFD; C0, DEL and C1 are escaped. */
int json_text_add_string(struct buf *b, const char *s, size_t n);

/* Adds valid JSON re-indented by two spaces a level, DEL and C1 escaped. */
int json_text_add_indented(struct buf *b, const char *text, size_t n);

/* Adds valid JSON unchanged, except that DEL and C1 are escaped: harmless on a terminal. */
int json_text_add_harmless(struct buf *b, const char *text, size_t n);

/* Length of the string, number or literal that starts at p in valid JSON. */
size_t json_text_scalar_len(const char *p, const char *end);
