/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From method and path to an operation of the contract in api/.
 *
 * The tables behind it are made by tools/openapic.py: an operation that is not in the contract has
 * no number here, and one without a handler does not link (api_handlers in the generated
 * api_ops.h).
 *
 * No allocation, no state, any thread. Knows nothing of HTTP messages: the caller decodes the path
 * once and passes bytes. Ids and file paths found in it are *not* checked here but by
 * api_params_check().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api_ops.h" /* generated: enum api_op, API_OPS, prototypes of all handlers */

enum api_method { API_GET, API_POST, API_PUT, API_DELETE, API_METHODS };

#define API_PATH_PARAMS_MAX 4

/* Bytes borrowed from the path that was matched; not NUL-terminated. */
struct api_slice {
    const char *data;
    size_t len;
};

enum api_found {
    API_FOUND,
    API_NOT_FOUND,     /* 404 */
    API_METHOD_REFUSED /* 405: match.allow says which methods the path has */
};

struct api_match {
    enum api_op op;
    bool is_head;     /* asked by HEAD, answered as GET without a body */
    uint8_t n_params; /* as many as api_op_get(op)->n_path */
    /* in the order of the path; names: api_op_get() */
    struct api_slice params[API_PATH_PARAMS_MAX];
    uint8_t allow; /* bit per enum api_method; set on 405 */
};

/*
 * A literal segment wins over a parameter. A parameter takes one segment that is not empty; the
 * last one of some routes ("{path}") takes the rest with its slashes.
 */
enum api_found api_route_match(const char *method, const char *path, size_t len,
                               struct api_match *ret);

#define API_ALLOW_MAX 48

/* "GET, HEAD, POST": the value of the Allow header. */
void api_allow_text(uint8_t allow, char ret[static API_ALLOW_MAX]);

/* ---- what the contract says about an operation ---- */

struct api_field;
struct api_schema;

enum api_dialect { API_COMMON, API_V1, API_RUN, API_WORKSPACE_SE, API_AGENTS };

enum api_body { API_BODY_NONE, API_BODY_JSON, API_BODY_MULTIPART, API_BODY_RAW };

struct api_op_info {
    const char *id; /* operationId; the handler is api_<id> */
    enum api_dialect dialect;
    enum api_body body;
    bool body_required;
    bool open_query; /* unknown query parameters are ignored instead of refused */
    uint8_t n_path;
    uint8_t n_query;
    uint8_t n_headers;
    uint64_t body_max;                    /* bytes; more is 413. 0: there is no body */
    const struct api_schema *body_schema; /* of a JSON body; NULL: none */
    const struct api_field *path;         /* in the order of the path */
    const struct api_field *query;
    const struct api_field *headers; /* names in lower case */
};

const struct api_op_info *api_op_get(enum api_op op);

/* ---- documents made at build time ---- */

enum api_asset_name {
    API_ASSET_OPENAPI,   /* the whole contract */
    API_ASSET_SE,        /* the part of /workspace/se, for its api.json */
    API_ASSET_DOCS_HTML, /* readable page without outside resources */
    API_ASSETS
};

struct api_asset {
    const char *content_type;
    const char *etag; /* with its quotes */
    const unsigned char *data;
    size_t len;
    const unsigned char *gzip; /* the same with Content-Encoding: gzip */
    size_t gzip_len;
};

const struct api_asset *api_asset_get(enum api_asset_name name);
