/* SPDX-License-Identifier: Apache-2.0 */
/* What schema.c needs from format.c beside api_format_check(). Private to them. */
#pragma once

#include "api/contract/schema.h"

/* What a string of that form looks like, for messages; NULL for API_FORMAT_NONE. */
const char *api_format_expected(enum api_format format);

/*
 * Value of a size (bytes) or cpu (thousandths); INT64_MAX when it is larger. -EINVAL: no such
 * number.
 */
int api_format_number(enum api_format format, const char *s, size_t n, int64_t *ret);
