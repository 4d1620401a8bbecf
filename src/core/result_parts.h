/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a result as JSON, for writers of another shape than husk_result_json(). */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"
#include "husk/husk.h"

/* Bytes from a box: what is not UTF-8 becomes U+FFFD. */
json_t *result_text(const char *s, size_t n);
json_t *result_base64(const char *data, size_t n);
json_t *result_error(const struct husk_result *r);
json_t *result_metrics(const struct husk_metrics *m);
json_t *result_receipt(const struct husk_receipt *c);

/*
 * Puts a member behind those of the object that text holds: "{...}" becomes "{..., "name": json}".
 * For JSON from a box: parsing and printing it would change numbers. 0 or -errno.
 */
int result_add_member(struct buf *text, const char *name, const char *json);

/* Data of this type is UTF-8: text, JSON, XML. */
bool result_mime_is_text(const char *type, size_t len);
