/* SPDX-License-Identifier: Apache-2.0 */
/* The value of Content-Disposition for any file name. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define HTTP_DISPOSITION_MAX 1200

/*
 * Both forms of RFC 6266: one for old clients, where what is not plain becomes '_', and one that
 * keeps every byte. A name from a box may hold anything but NUL, so nothing of it reaches the head
 * as it is. Cut to 255 bytes.
 */
void http_disposition(char ret[static HTTP_DISPOSITION_MAX], const char *name, bool is_shown);
