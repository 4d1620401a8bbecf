/* SPDX-License-Identifier: Apache-2.0 */
/* The value of Content-Disposition for any file name. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define HTTP_DISPOSITION_MAX 1200

/*
 * Both forms of RFC 6266: one for old clients, in which other than plain characters become '_', and
 * one that keeps every byte. A name from a box may hold any byte but NUL, so none of it reaches the
 * head unescaped. Cut to 255 bytes.
 */
void http_disposition(char ret[static HTTP_DISPOSITION_MAX], const char *name, bool is_shown);
