/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A walk down a value and its schema; shared by schema.c, object.c, params.c and violations.c,
 * private to them.
 */
#pragma once

#include "api/contract/schema.h"
#include "base/attr.h"

struct walk {
    struct api_violations *v;
    const char *in;
    size_t depth; /* may exceed API_LOC_MAX; steps beyond are not kept */
    struct api_step steps[API_LOC_MAX];
};

/* The value as an integer, new, where the schema wants one and it is written as 30.0; else NULL. */
json_t *walk_whole(const struct api_schema *s, const json_t *value);
void walk_check(struct walk *w, const struct api_schema *s, json_t *value);         /* schema.c */
void walk_check_object(struct walk *w, const struct api_schema *s, json_t *object); /* object.c */
/* Gives absent members of the object their defaults. */
void walk_fill(struct walk *w, const struct api_field *fields, size_t n, json_t *object);

/* violations.c */
void walk_enter(struct walk *w, const char *name, size_t index); /* name NULL: an index */
void walk_leave(struct walk *w);
bool walk_is_full(const struct walk *w); /* no further violation would be listed */

/* The message is the place, a blank and this text. */
void walk_report(struct walk *w, const char *type, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* The message is this text alone. */
void walk_report_own(struct walk *w, const char *type, const char *message);
