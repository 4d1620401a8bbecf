/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON text from clients; see schema.h. jansson does the grammar; levels and values are counted
 * before it: its own limit of levels is far above ours and each costs stack, and an empty object
 * of three bytes takes 200 in its tree.
 */
#include <string.h>

#include "api/contract/schema.h"
#include "base/str.h"

/*
 * JSON that is valid but beyond our limits is reported in our words; for the rest jansson's are
 * good.
 */
static void explain(const json_error_t *why, struct err *e)
{
    char shown[sizeof(why->text) * 2];

    switch (json_error_code(why)) {
    case json_error_numeric_overflow:
        err_set(e, ERR_INVALID,
                "line %d column %d: the number is too large: a whole one must fit 64 bits",
                why->line, why->column);
        break;
    case json_error_null_character:
    case json_error_null_byte_in_key:
        err_set(e, ERR_INVALID, "line %d column %d: a text must not hold \\u0000", why->line,
                why->column);
        break;
    default:
        str_printable(shown, sizeof(shown), why->text, strlen(why->text));
        err_set(e, ERR_INVALID, "the body is not JSON: line %d column %d: %s", why->line,
                why->column, shown);
        break;
    }
}

json_t *api_json_parse(const char *data, size_t len, struct err *e)
{
    json_error_t why;

    if (len == 0) {
        err_set(e, ERR_INVALID, "the body is empty, expected JSON");
        return NULL;
    }
    const char *nul = memchr(data, '\0', len);
    if (nul != NULL) {
        err_set(e, ERR_INVALID, "the body is not JSON: a NUL at byte %zu", (size_t)(nul - data));
        return NULL;
    }
    struct str_json_extent extent = str_json_extent(data, len);
    if (extent.levels > API_JSON_DEPTH_MAX) {
        err_set(e, ERR_INVALID, "the body has more than %d levels", API_JSON_DEPTH_MAX);
        return NULL;
    }
    if (extent.values > API_JSON_VALUES_MAX) {
        err_set(e, ERR_LIMIT, "the body has more than %d values", API_JSON_VALUES_MAX);
        return NULL;
    }

    json_t *value = json_loadb(data, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);
    if (value == NULL) {
        explain(&why, e);
    }
    return value;
}
