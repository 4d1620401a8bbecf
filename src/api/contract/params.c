/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Path, query and header parameters: text to typed values, then the same check as for bodies; see
 * schema.h.
 *
 * Text is taken by its type alone: a whole number is digits with an optional minus, a boolean is
 * true or false (also 1 and 0, and in any case: Python's clients write True), and nothing else is
 * either.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/contract/check.h"
#include "base/parse.h"
#include "base/str.h"

static json_t *integer_read(const char *text)
{
    bool is_negative = text[0] == '-';
    uint64_t value;

    int r = parse_u64(is_negative ? text + 1 : text, &value);
    if (r == -ERANGE || (r == 0 && value > INT64_MAX)) {
        return json_integer(is_negative ? INT64_MIN : INT64_MAX); /* the range check refuses it */
    }
    if (r < 0) {
        return NULL;
    }
    return json_integer(is_negative ? -(int64_t)value : (int64_t)value);
}

/* Digits with at most one dot: no exponent, no sign but minus, no "inf". */
static json_t *number_read(const char *text)
{
    const char *digits = text[0] == '-' ? text + 1 : text;
    size_t whole = strspn(digits, "0123456789");
    size_t rest = digits[whole] == '.' ? 1 + strspn(digits + whole + 1, "0123456789") : 0;

    if (whole == 0 || rest == 1 || digits[whole + rest] != '\0' || whole + rest > 32) {
        return NULL;
    }
    return json_real(strtod(text, NULL)); /* the locale of huskd is always C */
}

static json_t *boolean_read(const char *text)
{
    if (strcasecmp(text, "true") == 0 || str_eq(text, "1")) {
        return json_true();
    }
    return strcasecmp(text, "false") == 0 || str_eq(text, "0") ? json_false() : NULL;
}

/* The text as the schema's type, or NULL: not of that type. */
static json_t *value_read(const struct api_schema *s, const char *text, size_t n)
{
    char word[64];

    if ((s->types & API_TYPE_STRING) != 0) {
        return json_stringn(text, n); /* NULL when it is not UTF-8 */
    }
    if (n >= sizeof(word) || memchr(text, '\0', n) != NULL) {
        return NULL;
    }
    memcpy(word, text, n);
    word[n] = '\0';
    if ((s->types & API_TYPE_INTEGER) != 0) {
        return integer_read(word);
    }
    return (s->types & API_TYPE_NUMBER) != 0 ? number_read(word) : boolean_read(word);
}

static void report_unreadable(struct walk *w, const struct api_schema *s)
{
    static const struct {
        uint8_t type;
        const char *violation;
        const char *words;
    } rows[] = {
        {API_TYPE_STRING, "string_type", "must be UTF-8 text"},
        {API_TYPE_INTEGER, "int_parsing", "must be a whole number"},
        {API_TYPE_NUMBER, "float_parsing", "must be a number"},
        {API_TYPE_BOOLEAN, "bool_parsing", "must be true or false"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if ((s->types & rows[i].type) != 0) {
            walk_report(w, rows[i].violation, "%s", rows[i].words);
            return;
        }
    }
}

static void take(struct walk *w, const struct api_field *field, struct api_slice text,
                 json_t *params)
{
    walk_enter(w, field->name, 0);
    if (json_object_get(params, field->name) != NULL) {
        walk_report(w, "repeated", "is given twice");
        walk_leave(w);
        return;
    }
    json_t *value = value_read(field->schema, text.data, text.len);
    if (value == NULL) {
        report_unreadable(w, field->schema);
    } else {
        walk_check(w, field->schema, value);
        if (json_object_set_new(params, field->name, value) < 0) {
            walk_report(w, "out_of_memory", "could not be read: memory is exhausted");
        }
    }
    walk_leave(w);
}

/* The slashes that were encoded are the value's own: only here does it become known. */
static void take_segment(struct walk *w, const struct api_field *field, struct api_slice text,
                         char slash, json_t *params)
{
    if (slash == '\0' || memchr(text.data, slash, text.len) == NULL) {
        take(w, field, text, params);
        return;
    }
    AUTO_FREE char *value = strndup(text.data, text.len);
    if (value == NULL) {
        walk_report(w, "out_of_memory", "could not be read: memory is exhausted");
        return;
    }
    for (char *at = value; (at = strchr(at, slash)) != NULL;) {
        *at = '/';
    }
    take(w, field, (struct api_slice){value, strlen(value)}, params);
}

static void check_required(struct walk *w, const struct api_field *fields, size_t n,
                           const json_t *params)
{
    for (size_t i = 0; i < n; i++) {
        if (fields[i].is_required && json_object_get(params, fields[i].name) == NULL) {
            walk_enter(w, fields[i].name, 0);
            walk_report(w, "missing", "is required");
            walk_leave(w);
        }
    }
}

static void take_query(const struct api_request_text *text, const struct api_op_info *info,
                       json_t *params, struct api_violations *v)
{
    struct walk w = {.v = v, .in = "query"};
    size_t before = v->total;

    for (size_t i = 0; i < text->n_query && !walk_is_full(&w); i++) {
        const struct api_pair *pair = &text->query[i];
        const struct api_field *field = NULL;

        for (size_t k = 0; k < info->n_query; k++) {
            if (str_eq(info->query[k].name, pair->name)) {
                field = &info->query[k];
            }
        }
        if (field != NULL) {
            take(&w, field, (struct api_slice){pair->value, strlen(pair->value)}, params);
        } else if (!info->open_query) {
            walk_enter(&w, pair->name, 0);
            walk_report(&w, "extra_forbidden", "is not a known query parameter");
            walk_leave(&w);
        }
    }
    if (v->total == before) {
        check_required(&w, info->query, info->n_query, params);
        walk_fill(&w, info->query, info->n_query, params);
    }
}

static void take_headers(const struct api_request_text *text, const struct api_op_info *info,
                         json_t *params, struct api_violations *v)
{
    struct walk w = {.v = v, .in = "header"};

    for (size_t i = 0; i < info->n_headers && text->header != NULL; i++) {
        const char *value = text->header(text->user, info->headers[i].name);
        if (value != NULL) {
            take(&w, &info->headers[i], (struct api_slice){value, strlen(value)}, params);
        }
    }
    check_required(&w, info->headers, info->n_headers, params);
    walk_fill(&w, info->headers, info->n_headers, params);
}

int api_params_check(const struct api_request_text *text, json_t **ret, struct api_violations *v)
{
    const struct api_op_info *info = api_op_get(text->match->op);
    struct walk w = {.v = v, .in = "path"};
    size_t before = v->total;
    json_t *params = json_object();

    if (params == NULL) {
        walk_report(&w, "out_of_memory", "could not be read: memory is exhausted");
        return -1;
    }
    for (size_t i = 0; i < info->n_path && i < text->match->n_params; i++) {
        take_segment(&w, &info->path[i], text->match->params[i], text->slash, params);
    }
    take_query(text, info, params, v);
    take_headers(text, info, params, v);
    if (v->total > before) {
        json_decref(params);
        return -1;
    }
    *ret = params;
    return 0;
}
