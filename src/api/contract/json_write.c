/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON as it is sent; see schema.h. jansson writes 17 digits of every fraction, so 2.272 becomes
 * 2.2719999999999998. Here each has the fewest digits, from 15 on and without zeros behind them,
 * that read back as the same number: what the client or the program wrote.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/contract/schema.h"

#define FLAGS (JSON_COMPACT | JSON_ENCODE_ANY)
#define NUMBER_MAX 32    /* jansson's longest is 24 */
#define DIGITS_FEWEST 15 /* what was written with as many comes out as it was */
#define DIGITS_MOST 17   /* what jansson writes */

/* "1e+05" to "1e5", and "7" to "7.0": as jansson does it. */
static void tidy(char number[static NUMBER_MAX])
{
    char *e = strchr(number, 'e');

    if (e == NULL) {
        if (strchr(number, '.') == NULL) {
            memcpy(number + strlen(number), ".0", 3);
        }
        return;
    }
    char *from = e + 1;
    char *to = e + 1;
    if (*from == '-') {
        from++;
        to++;
    } else if (*from == '+') {
        from++;
    }
    while (*from == '0') {
        from++;
    }
    memmove(to, from, strlen(from) + 1);
}

/* The number at text, of n bytes, in place. Returns its new length, which is not larger. */
static size_t shorten_number(char *text, size_t n)
{
    char was[NUMBER_MAX];
    char number[NUMBER_MAX];

    if (n <= DIGITS_FEWEST || n >= sizeof(was) || memchr(text, '.', n) == NULL) {
        return n;
    }
    memcpy(was, text, n);
    was[n] = '\0';
    double value = strtod(was, NULL);
    for (int digits = DIGITS_FEWEST; digits < DIGITS_MOST; digits++) {
        (void)snprintf(number, sizeof(number) - 2, "%.*g", digits, value);
        if (strtod(number, NULL) == value) {
            tidy(number);
            size_t len = strlen(number);
            if (len < n) {
                /* NOLINTNEXTLINE(bugprone-not-null-terminated-result): more text follows it */
                memcpy(text, number, len);
                return len;
            }
            return n;
        }
    }
    return n;
}

/* The length of the string that begins at its quote. */
static size_t string_length(const char *text, size_t n)
{
    for (const char *at = text + 1; (at = memchr(at, '"', (size_t)(text + n - at))) != NULL; at++) {
        const char *slash = at;
        while (slash[-1] == '\\') {
            slash--;
        }
        if ((at - slash) % 2 == 0) {
            return (size_t)(at - text) + 1;
        }
    }
    return n;
}

static size_t number_length(const char *text, size_t n)
{
    size_t len = 0;

    while (len < n && (isdigit((unsigned char)text[len]) || strchr("+-.eE", text[len]) != NULL)) {
        len++;
    }
    return len;
}

/* In place. Returns the new length. */
static size_t shorten(char *text, size_t n)
{
    size_t to = 0;

    for (size_t at = 0; at < n;) {
        bool is_number = text[at] == '-' || isdigit((unsigned char)text[at]);
        size_t took = is_number         ? number_length(text + at, n - at)
                      : text[at] == '"' ? string_length(text + at, n - at)
                                        : 1;
        size_t len = is_number ? shorten_number(text + at, took) : took;
        if (to != at) {
            memmove(text + to, text + at, len);
        }
        to += len;
        at += took;
    }
    return to;
}

size_t api_json_write(const json_t *value, char *dst, size_t size)
{
    size_t n = json_dumpb(value, dst, size, FLAGS);

    return n <= size ? shorten(dst, n) : n;
}

char *api_json_text(const json_t *value, size_t *ret_len)
{
    char *text = json_dumps(value, FLAGS);

    if (text != NULL) {
        *ret_len = shorten(text, strlen(text));
        text[*ret_len] = '\0';
    }
    return text;
}
