/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The grammar that all header fields share (RFC 9110, 5.5 and 5.6): tokens, values, lists,
 * parameters, media types. Pure functions.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* True if the character is in a set of one bit per ASCII character. */
bool http_is_in(const uint64_t set[2], char c);
bool http_is_token(const char *s, size_t n); /* at least one byte */
bool http_is_value(const char *s, size_t n); /* no control byte but tab; may be empty */
int http_hex_digit(char c);                  /* 0 to 15, or -1 */

/* True if the comma-separated list holds the token, in any case. */
bool http_list_has(const char *list, const char *token);

/* True if the value is of that media type; parameters ("; charset=utf-8") are ignored. */
bool http_type_is(const char *value, const char *type);

/*
 * The parameter of a value like `form-data; name="a \"b\""`, unquoted. Returns its length; -1 if it
 * is absent; -2 if the value is malformed or the parameter is repeated or longer than size - 1
 * bytes.
 */
int http_param(const char *value, const char *name, char *dst, size_t size);
