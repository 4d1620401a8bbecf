/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values against the tables of the contract; see schema.h.
 *
 * A walk goes down schema and value together and remembers where it is. The tables are finite and
 * never refer to themselves, so its depth is bounded by them, not by the client.
 */
#include "api/contract/schema.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/contract/check.h"
#include "api/contract/format.h"
#include "base/attr.h"
#include "base/str.h"

#define THOUSAND 1000.0

static const struct {
    uint8_t type;
    const char *words;
    const char *violation;
} type_words[] = {
    {API_TYPE_BOOLEAN, "true or false", "bool_type"},
    {API_TYPE_INTEGER, "a whole number", "int_type"},
    {API_TYPE_NUMBER, "a number", "float_type"},
    {API_TYPE_STRING, "a string", "string_type"},
    {API_TYPE_ARRAY, "an array", "list_type"},
    {API_TYPE_OBJECT, "an object", "dict_type"},
    {API_TYPE_NULL, "null", "none_type"},
};

static uint8_t type_of(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return API_TYPE_OBJECT;
    case JSON_ARRAY:
        return API_TYPE_ARRAY;
    case JSON_STRING:
        return API_TYPE_STRING;
    case JSON_INTEGER:
        return API_TYPE_INTEGER;
    case JSON_REAL:
        return API_TYPE_NUMBER;
    case JSON_TRUE:
    case JSON_FALSE:
        return API_TYPE_BOOLEAN;
    default:
        return API_TYPE_NULL;
    }
}

static const char *own_words(const struct api_schema *s, size_t offset)
{
    return s->messages == NULL ? NULL : *(const char *const *)((const char *)s->messages + offset);
}

#define OWN_WORDS(schema, member) own_words((schema), offsetof(struct api_messages, member))

static void report_type(struct walk *w, const struct api_schema *s, uint8_t got)
{
    char wanted[128] = "";
    size_t used = 0;
    const char *violation = "type_error";
    const char *got_words = "something else";
    const char *own = OWN_WORDS(s, type);

    for (size_t i = 0; i < ARRAY_LEN(type_words); i++) {
        if (type_words[i].type == got) {
            got_words = type_words[i].words;
        }
        if ((s->types & type_words[i].type) != 0 && used < sizeof(wanted)) {
            violation = used == 0 ? type_words[i].violation : "type_error";
            used += (size_t)snprintf(wanted + used, sizeof(wanted) - used, "%s%s",
                                     used > 0 ? " or " : "", type_words[i].words);
        }
    }
    if (own != NULL) {
        walk_report_own(w, violation, own);
    } else {
        walk_report(w, violation, "must be %s, not %s", wanted,
                    got == API_TYPE_BOOLEAN ? "a boolean" : got_words);
    }
}

/* A bound as people write it: "0.5", "16Mi" or "3600". */
static void bound_text(const struct api_schema *s, int64_t bound, char *ret, size_t size)
{
    if ((s->types & API_TYPE_NUMBER) != 0) {
        snprintf(ret, size, "%.10g", (double)bound / THOUSAND);
    } else if (s->format == API_FORMAT_SIZE && bound % (1 << 20) == 0) {
        snprintf(ret, size, "%" PRId64 "Mi", bound >> 20);
    } else {
        snprintf(ret, size, "%" PRId64, bound);
    }
}

static void report_range(struct walk *w, const struct api_schema *s, bool is_below)
{
    char min[32];
    char max[32];
    const char *violation = is_below ? "greater_than_equal" : "less_than_equal";

    bound_text(s, s->min, min, sizeof(min));
    bound_text(s, s->max, max, sizeof(max));
    walk_report(w, violation, "must be at least %s and at most %s", min, max);
}

static void check_integer(struct walk *w, const struct api_schema *s, int64_t value)
{
    if (s->has_min && value < s->min) {
        report_range(w, s, true);
    } else if (s->has_max && value > s->max) {
        report_range(w, s, false);
    }
}

static void check_number(struct walk *w, const struct api_schema *s, double value)
{
    /*
     * Division, unlike multiplication of the value, gives exactly what the client's "0.1" became.
     */
    if (s->has_min && value < (double)s->min / THOUSAND) {
        report_range(w, s, true);
    } else if (s->has_max && value > (double)s->max / THOUSAND) {
        report_range(w, s, false);
    } else if (s->format == API_FORMAT_CPU &&
               fabs(value * THOUSAND - rint(value * THOUSAND)) > 1e-6) {
        walk_report(w, "value_error", "must be %s", api_format_expected(API_FORMAT_CPU));
    }
}

static size_t count_characters(const char *s, size_t n)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++) {
        count += ((unsigned char)s[i] & 0xc0) != 0x80;
    }
    return count;
}

/* True if the length is fine. */
static bool check_length(struct walk *w, const struct api_schema *s, const char *text, size_t n)
{
    size_t characters = count_characters(text, n);
    const char *own = NULL;

    if (characters < s->min_length) {
        own = OWN_WORDS(s, too_short);
        if (own != NULL) {
            walk_report_own(w, "value_error", own);
        } else if (s->min_length == 1) {
            walk_report(w, "string_too_short", "must not be empty");
        } else {
            walk_report(w, "string_too_short", "must have at least %" PRIu32 " characters",
                        s->min_length);
        }
        return false;
    }
    bool is_long = s->max_length != 0 && characters > s->max_length;
    if (!is_long && (s->max_bytes == 0 || n <= s->max_bytes)) {
        return true;
    }
    own = OWN_WORDS(s, too_long);
    if (own != NULL) {
        walk_report_own(w, "value_error", own);
    } else {
        walk_report(w, "string_too_long", "must have at most %" PRIu32 " %s, not %zu",
                    is_long ? s->max_length : s->max_bytes, is_long ? "characters" : "bytes",
                    is_long ? characters : n);
    }
    return false;
}

static void report_values(struct walk *w, const struct api_schema *s)
{
    char list[192] = "";
    size_t used = 0;

    for (size_t i = 0; s->values[i] != NULL && used < sizeof(list); i++) {
        used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", i > 0 ? ", " : "",
                                 s->values[i]);
    }
    walk_report(w, "enum", "must be one of %s", list);
}

static bool is_listed(const char *const *values, const char *text)
{
    for (size_t i = 0; values[i] != NULL; i++) {
        if (str_eq(values[i], text)) {
            return true;
        }
    }
    return false;
}

static void check_string(struct walk *w, const struct api_schema *s, const char *text, size_t n)
{
    int64_t number;

    if (s->values != NULL) {
        if (!is_listed(s->values, text)) {
            report_values(w, s);
        }
        return;
    }
    if (!check_length(w, s, text, n)) {
        return;
    }
    if (!api_format_check((enum api_format)s->format, text, n)) {
        const char *own = OWN_WORDS(s, format);
        if (own != NULL) {
            walk_report_own(w, "value_error", own);
        } else {
            walk_report(w, "value_error", "must be %s",
                        api_format_expected((enum api_format)s->format));
        }
        return;
    }
    if ((s->format == API_FORMAT_SIZE || s->format == API_FORMAT_CPU) &&
        api_format_number((enum api_format)s->format, text, n, &number) == 0) {
        check_integer(w, s, number);
    }
}

static void check_count(struct walk *w, const struct api_schema *s, size_t n, const char *what)
{
    if (n < s->min_items) {
        walk_report(w, "too_short", "must have at least %" PRIu32 " %s", s->min_items, what);
    } else if (s->max_items != 0 && n > s->max_items) {
        walk_report(w, "too_long", "must have at most %" PRIu32 " %s, not %zu", s->max_items, what,
                    n);
    }
}

/* JSON knows one kind of number: 30.0 is a whole one. */
json_t *walk_whole(const struct api_schema *s, const json_t *value)
{
    const double beyond = 9223372036854775808.0; /* 2^63, the first that does not fit */
    double number = json_real_value(value);

    if (!json_is_real(value) || (s->types & API_TYPE_INTEGER) == 0 || number != rint(number)) {
        return NULL;
    }
    return json_integer(number >= beyond    ? INT64_MAX /* the range check refuses it */
                        : number <= -beyond ? INT64_MIN
                                            : (json_int_t)number);
}

static void check_array(struct walk *w, const struct api_schema *s, json_t *array)
{
    size_t n = json_array_size(array);

    check_count(w, s, n, "items");
    for (size_t i = 0; i < n && s->items != NULL && !walk_is_full(w); i++) {
        json_t *whole = walk_whole(s->items, json_array_get(array, i));
        if (whole != NULL) {
            json_array_set_new(array, i, whole);
        }
        walk_enter(w, NULL, i);
        walk_check(w, s->items, json_array_get(array, i));
        walk_leave(w);
    }
}

void walk_check(struct walk *w, const struct api_schema *s, json_t *value)
{
    uint8_t got = type_of(value);
    uint8_t allowed = s->types;

    if ((allowed & API_TYPE_NUMBER) != 0) {
        allowed |= API_TYPE_INTEGER;
    }
    if (allowed != 0 && (allowed & got) == 0) {
        report_type(w, s, got);
        return;
    }
    if (got == API_TYPE_OBJECT) {
        walk_check_object(w, s, value);
    } else if (got == API_TYPE_ARRAY) {
        check_array(w, s, value);
    } else if (got == API_TYPE_STRING) {
        check_string(w, s, json_string_value(value), json_string_length(value));
    } else if ((s->types & API_TYPE_NUMBER) != 0 && got != API_TYPE_BOOLEAN &&
               got != API_TYPE_NULL) {
        check_number(w, s, json_number_value(value));
    } else if (got == API_TYPE_INTEGER) {
        check_integer(w, s, json_integer_value(value));
    }
}

int api_schema_check(const struct api_schema *schema, json_t *value, const char *in,
                     struct api_violations *v)
{
    struct walk w = {.v = v, .in = in};
    size_t before = v->total;

    walk_check(&w, schema, value);
    return v->total > before ? -1 : 0;
}

int api_body_check(enum api_op op, json_t **value, struct api_violations *v)
{
    const struct api_op_info *info = api_op_get(op);
    struct walk w = {.v = v, .in = "body"};

    if (info->body_schema == NULL) {
        if (*value == NULL) {
            return 0;
        }
        walk_report(&w, "extra_forbidden", "must not be sent: this request has none");
        return -1;
    }
    if (*value == NULL) {
        if (info->body_required) {
            walk_report(&w, "missing", "is required");
            return -1;
        }
        *value = json_object();
        if (*value == NULL) {
            walk_report(&w, "out_of_memory", "could not be read: memory is exhausted");
            return -1;
        }
    }
    return api_schema_check(info->body_schema, *value, "body", v);
}
