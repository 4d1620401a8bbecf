/* SPDX-License-Identifier: Apache-2.0 */
/* The date format of HTTP: "Sun, 06 Nov 1994 08:49:37 GMT". Independent of locale and time zone. */
#pragma once

#include <stdbool.h>
#include <time.h>

#define HTTP_DATE_SIZE 30 /* with the NUL */

/* Years 1 to 9999; other times are written as 1970. */
void http_date_format(time_t t, char dst[HTTP_DATE_SIZE]);
/* Accepts only this form. Callers treat the two obsolete forms as absent. */
bool http_date_parse(const char *s, time_t *ret);
