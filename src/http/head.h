/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The head of an HTTP/1.x request: strict and incremental.
 *
 * Anything that two implementations could read in two ways is refused: Content-Length beside
 * Transfer-Encoding, either of them twice, a coding other than chunked, folded lines, bare CR or
 * LF, control bytes, blanks before a colon, no or two Hosts, absolute targets that name another
 * host. After a refusal no byte of the connection can be trusted: the caller closes it.
 *
 * Pure: no input or output, no allocation. The caller owns the buffer.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_HEAD_MAX 16384  /* bytes from the request line to the empty line, both included */
#define HTTP_FIELDS_MAX 64   /* header fields */
#define HTTP_TARGET_MAX 8000 /* bytes of the request target */

enum http_method {
    HTTP_GET,
    HTTP_HEAD,
    HTTP_POST,
    HTTP_PUT,
    HTTP_PATCH,
    HTTP_DELETE,
    HTTP_OPTIONS,
    HTTP_TRACE,
    HTTP_QUERY,
    HTTP_METHODS
};

/* Fields that may occur only once, found while parsing. */
enum http_known {
    HTTP_HOST,
    HTTP_CONTENT_LENGTH,
    HTTP_TRANSFER_ENCODING,
    HTTP_CONTENT_TYPE,
    HTTP_CONTENT_ENCODING,
    HTTP_EXPECT,
    HTTP_AUTHORIZATION,
    HTTP_ORIGIN,
    HTTP_RANGE,
    HTTP_IF_RANGE,
    HTTP_IDEMPOTENCY_KEY,
    HTTP_LAST_EVENT_ID,
    HTTP_WEBSOCKET_KEY,
    HTTP_WEBSOCKET_VERSION,
    HTTP_KNOWN
};

/* Offsets into the buffer, because it may move while the head is incomplete. */
struct http_field {
    uint16_t name;
    uint16_t name_len;
    uint16_t value;
    uint16_t value_len;
};

struct http_head {
    /* Progress; all zero at the start of a head. */
    uint16_t line; /* where the first line not yet taken begins */
    bool has_request_line;
    const char *why; /* after a refusal: one short sentence, static */

    /* The result. Names, values and target are NUL-terminated once the head is complete. */
    char *base;      /* the buffer as it was in the last call */
    uint16_t length; /* of the whole head: the body starts there */
    uint16_t target;
    uint16_t target_len;
    uint8_t minor; /* HTTP/1.minor */
    enum http_method method;
    bool is_chunked;
    bool has_length;
    bool expects_continue;
    bool wants_close; /* HTTP/1.0, or the client said close */
    uint64_t content_length;
    uint8_t known[HTTP_KNOWN]; /* index into fields plus 1; 0: absent */
    uint16_t nfields;
    struct http_field fields[HTTP_FIELDS_MAX];
};

#define HTTP_HEAD_MORE 0 /* incomplete: call again with more bytes behind these */
#define HTTP_HEAD_DONE 1

/*
 * Looks at the first len bytes of a head that starts at buf. HTTP_HEAD_MORE, HTTP_HEAD_DONE, or the
 * status to refuse the request with: 400, 414, 417, 431, 501 or 505. Writes NULs into buf when
 * done.
 */
int http_head_parse(struct http_head *h, char *buf, size_t len);

const char *http_method_name(enum http_method method);
const char *http_head_target(const struct http_head *h);
const char *http_head_known(const struct http_head *h, enum http_known which); /* or NULL */
const char *http_head_find(const struct http_head *h, const char *name); /* the first, or NULL */
/* True if any field of that name lists the token (RFC 9110, 5.6.1), in any case. */
bool http_head_lists(const struct http_head *h, const char *name, const char *token);
