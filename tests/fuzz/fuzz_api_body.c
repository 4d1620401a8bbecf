/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target of api/contract/schema.h and api/contract/route.h. The first line is an operationId,
 * the rest the body that a client sends for it; or it is "METHOD /path?name=value" and the rest the
 * value of every header.
 */
#include <jansson.h>
#include <string.h>

#include "api/contract/schema.h"
#include "base/str.h"
#include "fuzz.h"

#define LINE_MAX_LEN 512

static bool is_text(const char *s)
{
    size_t n = strlen(s);

    for (size_t at = 0; at < n;) {
        size_t len = str_utf8_len(s + at, n - at);
        if (len == 0) {
            return false;
        }
        at += len;
    }
    return true;
}

/* What must hold for every list of violations. */
static void check_violations(const struct api_violations *v)
{
    char text[600];

    FUZZ_CHECK(v->n > 0 && v->n <= API_VIOLATIONS_MAX && v->n <= v->total);
    for (size_t i = 0; i < v->n; i++) {
        FUZZ_CHECK(str_is_terminated(v->list[i].message, sizeof(v->list[i].message)));
        FUZZ_CHECK(v->list[i].message[0] != '\0' && is_text(v->list[i].message));
        FUZZ_CHECK(v->list[i].n_steps <= API_LOC_MAX && v->list[i].type[0] != '\0');
    }
    api_violations_text(v, text, sizeof(text));
    FUZZ_CHECK(text[0] != '\0' && is_text(text));
    json_t *json = api_violations_json(v);
    FUZZ_CHECK(json != NULL && json_array_size(json_object_get(json, "detail")) == v->n);
    json_decref(json);
}

static void try_body(enum api_op op, const char *data, size_t size)
{
    static struct api_violations v;
    struct err e = {0};
    json_t *body = api_json_parse(data, size, &e);

    if (body == NULL) {
        FUZZ_CHECK(e.code == ERR_INVALID && is_text(e.msg));
        return;
    }
    v = (struct api_violations){0};
    if (api_body_check(op, &body, &v) < 0) {
        check_violations(&v);
    } else {
        FUZZ_CHECK(v.total == 0);
        FUZZ_CHECK(json_is_object(body));
        /* With its defaults it is still valid. */
        FUZZ_CHECK(api_body_check(op, &body, &v) == 0);
    }
    json_decref(body);
}

static const char *same_header(void *user, const char *name)
{
    FUZZ_CHECK(name[0] != '\0');
    return user;
}

/* True if a part of the path is "..". */
static bool climbs(const char *path)
{
    for (const char *part = path; part != NULL; part = strchr(part, '/')) {
        part += part[0] == '/';
        if (strcspn(part, "/") == 2 && part[0] == '.' && part[1] == '.') {
            return true;
        }
    }
    return false;
}

static void try_path(char *line, const char *rest)
{
    static struct api_violations v;
    struct api_match m;
    struct api_pair query = {0};
    json_t *params = NULL;
    char *path = strchr(line, ' ');

    *path++ = '\0';
    char *mark = strchr(path, '?');
    if (mark != NULL) {
        *mark++ = '\0';
        char *equals = strchr(mark, '=');
        query.name = mark;
        query.value = equals != NULL ? equals + 1 : "";
        if (equals != NULL) {
            *equals = '\0';
        }
    }
    if (api_route_match(line, path, strlen(path), &m) != API_FOUND) {
        return;
    }
    for (size_t i = 0; i < m.n_params; i++) {
        FUZZ_CHECK(m.params[i].data >= path);
        FUZZ_CHECK(m.params[i].data + m.params[i].len <= path + strlen(path));
    }
    struct api_request_text text = {.match = &m,
                                    .query = &query,
                                    .n_query = mark != NULL,
                                    .header = same_header,
                                    .user = (char *)rest};
    v = (struct api_violations){0};
    if (api_params_check(&text, &params, &v) < 0) {
        check_violations(&v);
        return;
    }
    FUZZ_CHECK(!climbs(json_string_value(json_object_get(params, "path"))));
    json_decref(params);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char line[LINE_MAX_LEN];
    char rest[LINE_MAX_LEN];
    const char *text = (const char *)data;
    const char *end = memchr(text, '\n', size);
    size_t n = end != NULL ? (size_t)(end - text) : size;

    if (n >= sizeof(line) || memchr(text, '\0', n) != NULL) {
        return 0;
    }
    memcpy(line, text, n);
    line[n] = '\0';
    size_t skip = end != NULL ? n + 1 : n;
    if (strchr(line, ' ') != NULL) {
        size_t len = MIN(size - skip, sizeof(rest) - 1);
        memcpy(rest, text + skip, len);
        rest[len] = '\0';
        try_path(line, rest);
        return 0;
    }
    for (unsigned op = 0; op < API_OPS; op++) {
        if (str_eq(api_op_get((enum api_op)op)->id, line)) {
            try_body((enum api_op)op, text + skip, size - skip);
        }
    }
    return 0;
}
