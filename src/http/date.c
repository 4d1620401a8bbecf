/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP dates; see date.h. */
#include "http/date.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"

static const char days[] = "SunMonTueWedThuFriSat";
static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

void http_date_format(time_t t, char dst[HTTP_DATE_SIZE])
{
    struct tm tm;

    if (gmtime_r(&t, &tm) == NULL || tm.tm_year < -1899 || tm.tm_year > 8099) {
        t = 0;
        gmtime_r(&t, &tm);
    }
    /* Cannot be truncated: every number was bounded above. */
    str_format(dst, HTTP_DATE_SIZE, "%.3s, %02d %.3s %04d %02d:%02d:%02d GMT",
               days + 3L * tm.tm_wday, tm.tm_mday, months + 3L * tm.tm_mon, tm.tm_year + 1900,
               tm.tm_hour, tm.tm_min, tm.tm_sec);
}

/* n digits at p as a number, or -1. */
static int digits(const char *p, size_t n)
{
    int value = 0;

    for (size_t i = 0; i < n; i++) {
        if (p[i] < '0' || p[i] > '9') {
            return -1;
        }
        value = value * 10 + (p[i] - '0');
    }
    return value;
}

static int month_of(const char *p)
{
    for (int i = 0; i < 12; i++) {
        if (memcmp(months + 3L * i, p, 3) == 0) {
            return i;
        }
    }
    return -1;
}

bool http_date_parse(const char *s, time_t *ret)
{
    char again[HTTP_DATE_SIZE];

    if (strlen(s) != HTTP_DATE_SIZE - 1) {
        return false;
    }
    struct tm tm = {
        .tm_mday = digits(s + 5, 2),
        .tm_mon = month_of(s + 8),
        .tm_year = digits(s + 12, 4) - 1900,
        .tm_hour = digits(s + 17, 2),
        .tm_min = digits(s + 20, 2),
        .tm_sec = digits(s + 23, 2),
    };
    if (tm.tm_mon < 0) {
        return false;
    }
    time_t t = timegm(&tm);
    /* Formatting the result again checks weekday, ranges and punctuation in one go. */
    http_date_format(t, again);
    if (memcmp(again, s, HTTP_DATE_SIZE) != 0) {
        return false;
    }
    *ret = t;
    return true;
}
