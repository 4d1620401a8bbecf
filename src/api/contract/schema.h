/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks what clients send against the contract in api/, whose schemas tools/openapic.py turns
 * into tables of struct api_schema. Handlers see only values that passed; absent fields hold their
 * defaults.
 *
 * Every violation is listed (up to API_VIOLATIONS_MAX), so that a client can repair its request at
 * once. Nothing is clamped, and nothing converted but 30.0 to 30 where a whole number is wanted. No
 * state, any thread.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/contract/route.h"
#include "base/err.h"

/* ---- JSON text ---- */

#define API_JSON_DEPTH_MAX 64
/* as str_json_extent() counts; an event of 65536 fields is below */
#define API_JSON_VALUES_MAX 200000

/*
 * Strict RFC 8259: UTF-8 without byte order mark, one value, no doubled names, no NUL (written or
 * escaped), no lone surrogates, integers within 64 bits, at most API_JSON_DEPTH_MAX levels. Owned
 * by the caller. NULL and ERR_INVALID with line and column otherwise, ERR_LIMIT for more than
 * API_JSON_VALUES_MAX values. The caller bounds len.
 */
json_t *api_json_parse(const char *data, size_t len, struct err *e);

/*
 * Compact, with the fewest digits that give each number back. The first returns the length; more
 * than size: so much room is needed; 0: it failed. The second returns a text that the caller owns,
 * or NULL.
 */
size_t api_json_write(const json_t *value, char *dst, size_t size);
char *api_json_text(const json_t *value, size_t *ret_len);

/* ---- schemas (made by the generator; read here) ---- */

/* Bits: a value may have one of several types. */
enum api_type {
    API_TYPE_NULL = 1,
    API_TYPE_BOOLEAN = 2,
    API_TYPE_INTEGER = 4,
    API_TYPE_NUMBER = 8, /* includes integers */
    API_TYPE_STRING = 16,
    API_TYPE_ARRAY = 32,
    API_TYPE_OBJECT = 64
};

/* Grammars of strings, by name (x-format); each is one function in format.c. */
enum api_format {
    API_FORMAT_NONE,
    API_FORMAT_AGENT_ID,
    API_FORMAT_CPU,    /* cores: "0.5"; min and max are thousandths */
    API_FORMAT_CURSOR, /* of a list: digits that fit int64_t */
    API_FORMAT_DATE_TIME,
    API_FORMAT_ENV_NAME,
    API_FORMAT_EXECUTION_ID,
    API_FORMAT_FILE_PATH, /* relative-path, or "." or empty for the workspace itself */
    API_FORMAT_IDEMPOTENCY_KEY,
    API_FORMAT_IDENTIFIER, /* of a Python module: "a.b" */
    API_FORMAT_NOT_BLANK,
    API_FORMAT_RELATIVE_PATH,
    API_FORMAT_SESSION_ID,
    API_FORMAT_SE_PATH, /* file-path that may begin with slashes */
    API_FORMAT_SIZE,    /* bytes: "512Mi"; min and max are bytes */
    API_FORMAT_TEMPLATE_NAME,
    API_FORMATS
};

/* Own words of a dialect for a broken rule; NULL: ours. */
struct api_messages {
    const char *format;
    const char *too_short;
    const char *too_long;
    const char *type;
};

/* How fields of one object depend on each other. */
struct api_rule {
    enum { API_EXACTLY_ONE, API_AT_MOST_ONE, API_NEEDS } kind;
    const char *const *names; /* NULL-terminated; API_NEEDS: the first needs all others */
};

struct api_schema {
    uint8_t types;       /* bits of enum api_type; 0: anything */
    uint8_t format;      /* enum api_format */
    uint8_t name_format; /* of the names of an open object's members */
    bool is_closed;      /* object: members that are not listed are refused */
    bool has_min;
    bool has_max;
    int64_t min; /* integers, bytes of a size; numbers and cpu: thousandths */
    int64_t max;
    uint32_t min_length; /* characters */
    uint32_t max_length; /* 0: no limit */
    uint32_t max_bytes;  /* of UTF-8; 0: no limit */
    uint32_t min_items;  /* elements, or members of an object */
    uint32_t max_items;  /* 0: no limit */
    uint32_t n_fields;
    uint32_t n_rules;
    const char *const *values; /* enum: NULL-terminated list; NULL: any */
    const char *fallback;      /* JSON text to use when absent; NULL: stays absent */
    const struct api_field *fields;
    const struct api_schema *items; /* of elements, or of members that are not listed */
    const struct api_rule *rules;
    const struct api_messages *messages;
};

struct api_field {
    const char *name;
    const struct api_schema *schema;
    bool is_required;
};

/* ---- violations ---- */

#define API_VIOLATIONS_MAX 16
#define API_LOC_MAX 8 /* deeper places are reported as their container */

/* One step of a location: a member's name, or an index when name is NULL. */
struct api_step {
    const char *name; /* borrowed from the tables or from the value that was checked */
    size_t index;
};

struct api_violation {
    const char *in;    /* "body", "path", "query" or "header" */
    const char *type;  /* for machines: missing, extra_forbidden, int_type, less_than_equal, ... */
    char message[256]; /* for humans: names the field and what was expected; printable */
    uint8_t n_steps;
    struct api_step steps[API_LOC_MAX];
};

struct api_violations {
    size_t n;     /* of list */
    size_t total; /* also those that did not fit */
    struct api_violation list[API_VIOLATIONS_MAX];
};

/* All of these append to *v and return 0 when they added nothing, else -1. */

/*
 * Checks a JSON body and writes defaults into it. *value may be NULL: no body was sent. Where that
 * is allowed it becomes a new object with the defaults, owned by the caller like any other body.
 */
int api_body_check(enum api_op op, json_t **value, struct api_violations *v);

/* A query parameter, decoded. */
struct api_pair {
    const char *name;
    const char *value;
};

struct api_request_text {
    const struct api_match *match; /* with its path parameters */
    char slash;                    /* what stands for an encoded slash in them; NUL: nothing */
    const struct api_pair *query;
    size_t n_query;
    const char *(*header)(void *user, const char *name); /* NULL: absent; NULL itself: no headers */
    void *user;
};

/*
 * Parses path, query and header parameters by their schemas into one object: {"limit": 50, ...};
 * defaults included, header names in lower case. Query names that the contract does not know
 * (unless the dialect ignores them) and repetitions are violations. *ret is written on success
 * only and owned by the caller.
 */
int api_params_check(const struct api_request_text *text, json_t **ret, struct api_violations *v);

/* Checks any value against any schema; what the two above are made of. */
int api_schema_check(const struct api_schema *schema, json_t *value, const char *in,
                     struct api_violations *v);

/* Adds a violation that a handler found itself. Returns -1. */
int api_violation_add(struct api_violations *v, const char *in, const char *name, const char *type,
                      const char *message);

/* "timeout must be ...; code is required": for error_detail of /api/v1. Cut to fit. */
void api_violations_text(const struct api_violations *v, char *ret, size_t size);

/*
 * {"detail":[{"loc":["body","timeout"],"msg":...,"type":...}]}: the 422 body of PyRunner and
 * /workspace/se.
 */
json_t *api_violations_json(const struct api_violations *v);

/* True if the string has that form. */
bool api_format_check(enum api_format format, const char *s, size_t len);
