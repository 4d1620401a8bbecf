/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects against the tables of the contract: members, rules between them, defaults; see schema.h.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/contract/check.h"
#include "api/contract/format.h"
#include "base/str.h"

static const struct api_field *field_find(const struct api_schema *s, const char *name)
{
    for (size_t i = 0; i < s->n_fields; i++) {
        if (str_eq(s->fields[i].name, name)) {
            return &s->fields[i];
        }
    }
    return NULL;
}

/* Names of the list that the object has (or all), as "a, b and c". Returns how many. */
static size_t list_names(const char *const *names, const json_t *only_of, char *ret, size_t size)
{
    size_t used = 0;
    size_t n = 0;

    ret[0] = '\0';
    for (size_t i = 0; names[i] != NULL; i++) {
        if (only_of != NULL && json_object_get(only_of, names[i]) == NULL) {
            continue;
        }
        if (used < size) {
            used += (size_t)snprintf(ret + used, size - used, "%s%s", n > 0 ? ", " : "", names[i]);
        }
        n++;
    }
    return n;
}

static void check_rule(struct walk *w, const struct api_rule *rule, const json_t *object)
{
    char all[128];
    char given[128];

    list_names(rule->names, NULL, all, sizeof(all));
    size_t n = list_names(rule->names, object, given, sizeof(given));
    switch (rule->kind) {
    case API_EXACTLY_ONE:
        if (n != 1) {
            walk_report(w, n == 0 ? "missing" : "value_error",
                        "must have exactly one of %s, and has %s", all, n == 0 ? "none" : given);
        }
        break;
    case API_AT_MOST_ONE:
        if (n > 1) {
            walk_report(w, "value_error", "must not have %s together", given);
        }
        break;
    case API_NEEDS:
        for (size_t i = 1;
             json_object_get(object, rule->names[0]) != NULL && rule->names[i] != NULL; i++) {
            if (json_object_get(object, rule->names[i]) == NULL) {
                walk_report(w, "missing", "has %s, which needs %s", rule->names[0], rule->names[i]);
            }
        }
        break;
    }
}

static void report_unknown(struct walk *w, const struct api_schema *s)
{
    char known[176] = "";
    size_t used = 0;

    for (size_t i = 0; i < s->n_fields && used < sizeof(known); i++) {
        used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s", i > 0 ? ", " : "",
                                 s->fields[i].name);
    }
    walk_report(w, "extra_forbidden", "is not a known field; known: %s", known);
}

static void check_member(struct walk *w, const struct api_schema *s, const char *name,
                         json_t *member)
{
    const struct api_field *field = field_find(s, name);

    walk_enter(w, name, 0);
    if (field != NULL) {
        walk_check(w, field->schema, member);
    } else if (s->is_closed) {
        report_unknown(w, s);
    } else if (!api_format_check((enum api_format)s->name_format, name, strlen(name))) {
        walk_report(w, "value_error", "is not a good name: it must be %s",
                    api_format_expected((enum api_format)s->name_format));
    } else if (s->items != NULL) {
        walk_check(w, s->items, member);
    }
    walk_leave(w);
}

void walk_fill(struct walk *w, const struct api_field *fields, size_t n, json_t *object)
{
    for (size_t i = 0; i < n; i++) {
        const char *fallback = fields[i].schema->fallback;

        if (fallback == NULL || json_object_get(object, fields[i].name) != NULL) {
            continue;
        }
        json_t *value = json_loads(fallback, JSON_DECODE_ANY, NULL);
        if (json_object_set_new(object, fields[i].name, value) < 0) {
            walk_report(w, "out_of_memory", "could not be read: memory is exhausted");
        }
    }
}

static void take_wholes(const struct api_schema *s, json_t *object)
{
    for (size_t i = 0; i < s->n_fields; i++) {
        const char *name = s->fields[i].name;
        json_t *whole = walk_whole(s->fields[i].schema, json_object_get(object, name));
        if (whole != NULL) {
            json_object_set_new(object, name, whole);
        }
    }
}

void walk_check_object(struct walk *w, const struct api_schema *s, json_t *object)
{
    size_t before = w->v->total;
    const char *name;
    json_t *member;

    for (size_t i = 0; i < s->n_fields; i++) {
        if (s->fields[i].is_required && json_object_get(object, s->fields[i].name) == NULL) {
            walk_enter(w, s->fields[i].name, 0);
            walk_report(w, "missing", "is required");
            walk_leave(w);
        }
    }
    take_wholes(s, object);
    json_object_foreach(object, name, member)
    {
        if (walk_is_full(w)) {
            break;
        }
        check_member(w, s, name, member);
    }
    for (size_t i = 0; i < s->n_rules; i++) {
        check_rule(w, &s->rules[i], object);
    }
    size_t n = json_object_size(object);
    if (n < s->min_items) {
        walk_report(w, "too_short", "must have at least %" PRIu32 " fields", s->min_items);
    } else if (s->max_items != 0 && n > s->max_items) {
        walk_report(w, "too_long", "must have at most %" PRIu32 " fields, not %zu", s->max_items,
                    n);
    }
    if (w->v->total == before) {
        walk_fill(w, s->fields, s->n_fields, object);
    }
}
