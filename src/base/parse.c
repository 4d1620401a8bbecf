/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers that people type; see parse.h. */
#include "base/parse.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/attr.h"

/* Reads digits at *s and moves *s past them. */
static int take_digits(const char **s, uint64_t *ret)
{
    uint64_t v = 0;
    const char *p = *s;

    if (*p < '0' || *p > '9') {
        return -EINVAL;
    }
    for (; *p >= '0' && *p <= '9'; p++) {
        if (__builtin_mul_overflow(v, (uint64_t)10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v)) {
            return -ERANGE;
        }
    }
    *s = p;
    *ret = v;
    return 0;
}

int parse_u64(const char *s, uint64_t *ret)
{
    uint64_t v;

    int r = take_digits(&s, &v);
    if (r < 0) {
        return r;
    }
    if (*s != '\0') {
        return -EINVAL;
    }
    *ret = v;
    return 0;
}

int parse_size(const char *s, uint64_t *ret)
{
    static const struct {
        const char *suffix;
        unsigned shift;
    } units[] = {
        {"", 0},    {"B", 0},   {"K", 10},   {"KB", 10},  {"Ki", 10},  {"KiB", 10},
        {"k", 10},  {"M", 20},  {"MB", 20},  {"Mi", 20},  {"MiB", 20}, {"m", 20},
        {"G", 30},  {"GB", 30}, {"Gi", 30},  {"GiB", 30}, {"g", 30},   {"T", 40},
        {"TB", 40}, {"Ti", 40}, {"TiB", 40}, {"t", 40},
    };
    uint64_t v;

    int r = take_digits(&s, &v);
    if (r < 0) {
        return r;
    }
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        if (strcmp(s, units[i].suffix) == 0) {
            if (__builtin_mul_overflow(v, (uint64_t)1 << units[i].shift, &v)) {
                return -ERANGE;
            }
            *ret = v;
            return 0;
        }
    }
    return -EINVAL;
}

/* Reads "12" or "12.345" as thousandths. */
static int take_milli(const char **s, uint64_t *ret)
{
    uint64_t whole;
    uint64_t milli = 0;

    int r = take_digits(s, &whole);
    if (r < 0) {
        return r;
    }
    if (**s == '.') {
        uint64_t scale = 100;
        (*s)++;
        if (**s < '0' || **s > '9') {
            return -EINVAL;
        }
        for (; **s >= '0' && **s <= '9'; (*s)++) {
            if (scale == 0) {
                return -EINVAL;
            }
            milli += (uint64_t)(**s - '0') * scale;
            scale /= 10;
        }
    }
    if (__builtin_mul_overflow(whole, (uint64_t)1000, &whole) ||
        __builtin_add_overflow(whole, milli, ret)) {
        return -ERANGE;
    }
    return 0;
}

int parse_milli(const char *s, uint64_t *ret)
{
    uint64_t v;

    int r = take_milli(&s, &v);
    if (r < 0) {
        return r;
    }
    if (*s != '\0') {
        return -EINVAL;
    }
    *ret = v;
    return 0;
}

int parse_duration_ms(const char *s, uint64_t *ret)
{
    static const struct {
        const char *suffix;
        uint64_t milli_per_unit;
    } units[] = {{"", 1000}, {"s", 1000}, {"ms", 1}, {"m", 60000}, {"h", 3600000}};
    uint64_t v;

    int r = take_milli(&s, &v);
    if (r < 0) {
        return r;
    }
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        if (strcmp(s, units[i].suffix) == 0) {
            if (__builtin_mul_overflow(v, units[i].milli_per_unit, &v)) {
                return -ERANGE;
            }
            if (v % 1000 != 0) {
                return -EINVAL; /* a fraction of a millisecond: "0.5ms" must not become 0 */
            }
            *ret = v / 1000;
            return 0;
        }
    }
    return -EINVAL;
}

int parse_bool(const char *s, bool *ret)
{
    static const char *const words[] = {"true", "1", "yes", "on", "false", "0", "no", "off"};

    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (strcasecmp(s, words[i]) == 0) {
            *ret = i < ARRAY_LEN(words) / 2;
            return 0;
        }
    }
    return -EINVAL;
}
