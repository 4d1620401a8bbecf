/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Splits a request target into path and query and decodes each exactly once.
 *
 * Refuses what a second decoder could read differently: "." and ".." segments, plain or encoded,
 * NUL, control characters in the path, bytes that are not UTF-8. Pure; fixed memory.
 *
 * An encoded slash separates nothing: it stays part of its segment, as HTTP_ENCODED_SLASH, a byte
 * that no path can have otherwise. Clients that are made from the contract encode the slashes of a
 * path parameter, and routes must not read them as their own.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "http/head.h"

#define HTTP_ENCODED_SLASH '\x1f'

struct http_target {
    size_t path_len;
    size_t query_len;
    char path[HTTP_TARGET_MAX + 1];      /* "/a/b"; "*" for OPTIONS * */
    char query[HTTP_TARGET_MAX * 2 + 2]; /* name NUL value NUL name NUL value NUL ... */
};

/*
 * host is the Host field, which an absolute target ("http://host/path") must name as well.
 * 0, or the status to refuse with (400).
 */
int http_target_split(const char *raw, enum http_method method, const char *host,
                      struct http_target *ret);

/* Walks the query's parameters in their order: *at starts at 0. False at the end. */
bool http_target_next(const struct http_target *t, size_t *at, const char **ret_name,
                      const char **ret_value);
