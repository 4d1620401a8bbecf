/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The named grammars of strings (x-format in the contract); see schema.h. Lengths are checked
 * elsewhere too.
 */
#include <errno.h>
#include <string.h>

#include "api/contract/format.h"
#include "base/parse.h"
#include "base/str.h"

#define ID_MAX 64
#define AGENT_MAX 128
#define KEY_MAX 128
#define NUMBER_MAX 31
#define CURSOR_MAX 18     /* digits that fit int64_t */
#define COMPONENT_MAX 255 /* NAME_MAX of Linux */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* A first character by `first`, further ones also from `more`. */
static bool is_word(const char *s, size_t n, size_t max, const char *first, const char *more)
{
    if (n == 0 || n > max) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        bool ok = is_letter(s[i]) || (s[i] != '\0' && strchr(first, s[i]) != NULL) ||
                  (i > 0 && s[i] != '\0' && strchr(more, s[i]) != NULL);
        if (!ok) {
            return false;
        }
    }
    return true;
}

static bool is_id(const char *s, size_t n)
{
    return is_word(s, n, ID_MAX, "0123456789", "_-");
}

static bool is_agent_id(const char *s, size_t n)
{
    return is_word(s, n, AGENT_MAX, "0123456789", "_.:@/-");
}

static bool is_cursor(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!is_digit(s[i])) {
            return false;
        }
    }
    return n > 0 && n <= CURSOR_MAX;
}

static bool is_env_name(const char *s, size_t n)
{
    return is_word(s, n, 128, "_", "0123456789");
}

static bool is_identifier(const char *s, size_t n)
{
    return is_word(s, n, 128, "_", "0123456789.");
}

static bool is_template_name(const char *s, size_t n)
{
    char name[ID_MAX];

    if (n >= sizeof(name) || memchr(s, '\0', n) != NULL) {
        return false;
    }
    memcpy(name, s, n);
    name[n] = '\0';
    return str_is_name(name);
}

static bool is_visible(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (s[i] < '!' || s[i] > '~') {
            return false;
        }
    }
    return n > 0 && n <= KEY_MAX;
}

/* White space as Python's str.strip() sees it, as far as it is ASCII or U+0085, U+00A0. */
static bool is_not_blank(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        unsigned char next = i + 1 < n ? (unsigned char)s[i + 1] : 0;

        if (c == 0xc2 && (next == 0x85 || next == 0xa0)) {
            i++;
            continue;
        }
        if (!((c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20))) {
            return true;
        }
    }
    return false;
}

static bool is_dots(const char *s, size_t n)
{
    return (n == 1 && s[0] == '.') || (n == 2 && s[0] == '.' && s[1] == '.');
}

/* Parts between slashes: none empty, no dots, none longer than a file name may be. */
static bool is_relative_path(const char *s, size_t n)
{
    if (n == 0 || memchr(s, '\0', n) != NULL) {
        return false;
    }
    for (size_t at = 0; at <= n;) {
        const char *slash = memchr(s + at, '/', n - at);
        size_t len = slash != NULL ? (size_t)(slash - s) - at : n - at;

        if (len == 0 || len > COMPONENT_MAX || is_dots(s + at, len)) {
            return false;
        }
        at += len + 1;
    }
    return true;
}

static bool is_file_path(const char *s, size_t n)
{
    return n == 0 || (n == 1 && s[0] == '.') || is_relative_path(s, n);
}

/*
 * Slashes in front mean the workspace; "." and doubled or last slashes are harmless, ".." is not.
 */
static bool is_se_path(const char *s, size_t n)
{
    if (memchr(s, '\0', n) != NULL) {
        return false;
    }
    for (size_t at = 0; at <= n;) {
        const char *slash = memchr(s + at, '/', n - at);
        size_t len = slash != NULL ? (size_t)(slash - s) - at : n - at;

        if (len > COMPONENT_MAX || (len == 2 && is_dots(s + at, len))) {
            return false;
        }
        at += len + 1;
    }
    return true;
}

/* Two digits between low and high. */
static bool is_two_digits(const char *s, int low, int high)
{
    if (!is_digit(s[0]) || !is_digit(s[1])) {
        return false;
    }
    int value = (s[0] - '0') * 10 + (s[1] - '0');
    return value >= low && value <= high;
}

static bool is_zone(const char *s, size_t n)
{
    if (n == 1) {
        return s[0] == 'Z';
    }
    return n == 6 && (s[0] == '+' || s[0] == '-') && is_two_digits(s + 1, 0, 23) && s[3] == ':' &&
           is_two_digits(s + 4, 0, 59);
}

/* The digits of YYYY-MM-DD. */
static bool is_date(const char *s)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int year = 0;

    for (int i = 0; i < 4; i++) {
        year = year * 10 + (s[i] - '0');
    }
    if (!is_two_digits(s + 5, 1, 12)) {
        return false;
    }
    int month = (s[5] - '0') * 10 + (s[6] - '0');
    bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return is_two_digits(s + 8, 1, days[month - 1] + (month == 2 && is_leap));
}

/* RFC 3339, upper case: 2026-01-15T09:30:00.123Z. */
static bool is_date_time(const char *s, size_t n)
{
    static const char marks[] = "dddd-dd-ddTdd:dd:dd";
    const size_t fixed = sizeof(marks) - 1;

    if (n < fixed + 1) {
        return false;
    }
    for (size_t i = 0; i < fixed; i++) {
        if (marks[i] == 'd' ? !is_digit(s[i]) : s[i] != marks[i]) {
            return false;
        }
    }
    if (!is_date(s) || !is_two_digits(s + 11, 0, 23) || !is_two_digits(s + 14, 0, 59) ||
        !is_two_digits(s + 17, 0, 59)) {
        return false;
    }
    size_t at = fixed;
    if (s[at] == '.') {
        size_t digits = 0;
        while (at + 1 + digits < n && is_digit(s[at + 1 + digits])) {
            digits++;
        }
        if (digits == 0 || digits > 9) {
            return false;
        }
        at += 1 + digits;
    }
    return is_zone(s + at, n - at);
}

/* The value of a size in bytes or of a cpu in thousandths. */
int api_format_number(enum api_format format, const char *s, size_t n, int64_t *ret)
{
    char text[NUMBER_MAX + 1];
    uint64_t value;

    if (n == 0 || n > NUMBER_MAX || memchr(s, '\0', n) != NULL) {
        return -EINVAL;
    }
    memcpy(text, s, n);
    text[n] = '\0';
    int r = format == API_FORMAT_SIZE ? parse_size(text, &value) : parse_milli(text, &value);
    if (r == -ERANGE || (r == 0 && value > INT64_MAX)) {
        *ret = INT64_MAX; /* too large whatever the maximum is */
        return 0;
    }
    if (r == 0) {
        *ret = (int64_t)value;
    }
    return r;
}

static bool is_size(const char *s, size_t n)
{
    int64_t value;

    return api_format_number(API_FORMAT_SIZE, s, n, &value) == 0;
}

static bool is_cpu(const char *s, size_t n)
{
    int64_t value;

    return api_format_number(API_FORMAT_CPU, s, n, &value) == 0;
}

#define RELATIVE_PATH                                                                              \
    "a path relative to the workspace without empty parts, . or .., its names at most 255 bytes"

static const struct {
    bool (*check)(const char *s, size_t n);
    const char *expected;
} formats[API_FORMATS] = {
    [API_FORMAT_AGENT_ID] = {is_agent_id,
                             "a letter or digit, then letters, digits and _ . : @ / -"},
    [API_FORMAT_CPU] = {is_cpu, "a number of cores such as \"0.5\", with at most three decimals"},
    [API_FORMAT_CURSOR] = {is_cursor, "the next_cursor of a page"},
    [API_FORMAT_DATE_TIME] = {is_date_time, "a time such as 2026-01-15T09:30:00Z"},
    [API_FORMAT_ENV_NAME] = {is_env_name, "a letter or _, then letters, digits and _"},
    [API_FORMAT_EXECUTION_ID] = {is_id, "a letter or digit, then letters, digits, _ and -"},
    [API_FORMAT_FILE_PATH] = {is_file_path, RELATIVE_PATH},
    [API_FORMAT_IDEMPOTENCY_KEY] = {is_visible, "1 to 128 visible ASCII characters"},
    [API_FORMAT_IDENTIFIER] = {is_identifier, "a letter or _, then letters, digits, _ and ."},
    [API_FORMAT_NOT_BLANK] = {is_not_blank, "not blank"},
    [API_FORMAT_RELATIVE_PATH] = {is_relative_path, RELATIVE_PATH},
    [API_FORMAT_SE_PATH] = {is_se_path,
                            "a path in the workspace without .., its names at most 255 bytes"},
    [API_FORMAT_SESSION_ID] = {is_id, "a letter or digit, then letters, digits, _ and -"},
    [API_FORMAT_SIZE] = {is_size, "a size such as \"512Mi\" or \"1Gi\", or a number of bytes"},
    [API_FORMAT_TEMPLATE_NAME] = {is_template_name,
                                  "a lower-case letter or digit, then those and . _ -"},
};

bool api_format_check(enum api_format format, const char *s, size_t len)
{
    return formats[format].check == NULL || formats[format].check(s, len);
}

const char *api_format_expected(enum api_format format)
{
    return formats[format].expected;
}
