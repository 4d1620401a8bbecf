/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parser of request heads; see head.h.
 *
 * It works line by line and looks at a line only when its end has come, so that input in single
 * bytes and input in one piece take the same path. Checks that involve several fields come at the
 * end.
 */
#include "http/head.h"

#include <string.h>
#include <strings.h>

#include "base/attr.h"
#include "http/field.h"
#include "http/host.h"

static const char *const method_names[HTTP_METHODS] = {
    [HTTP_GET] = "GET",         [HTTP_HEAD] = "HEAD",   [HTTP_POST] = "POST",
    [HTTP_PUT] = "PUT",         [HTTP_PATCH] = "PATCH", [HTTP_DELETE] = "DELETE",
    [HTTP_OPTIONS] = "OPTIONS", [HTTP_TRACE] = "TRACE", [HTTP_QUERY] = "QUERY",
};

#define KNOWN(text)                                                                                \
    {                                                                                              \
        text, sizeof(text) - 1                                                                     \
    }
static const struct {
    const char *name;
    size_t len;
} known_names[HTTP_KNOWN] = {
    [HTTP_HOST] = KNOWN("host"),
    [HTTP_CONTENT_LENGTH] = KNOWN("content-length"),
    [HTTP_TRANSFER_ENCODING] = KNOWN("transfer-encoding"),
    [HTTP_CONTENT_TYPE] = KNOWN("content-type"),
    [HTTP_CONTENT_ENCODING] = KNOWN("content-encoding"),
    [HTTP_EXPECT] = KNOWN("expect"),
    [HTTP_AUTHORIZATION] = KNOWN("authorization"),
    [HTTP_ORIGIN] = KNOWN("origin"),
    [HTTP_RANGE] = KNOWN("range"),
    [HTTP_IF_RANGE] = KNOWN("if-range"),
    [HTTP_IDEMPOTENCY_KEY] = KNOWN("idempotency-key"),
    [HTTP_LAST_EVENT_ID] = KNOWN("last-event-id"),
    [HTTP_WEBSOCKET_KEY] = KNOWN("sec-websocket-key"),
    [HTTP_WEBSOCKET_VERSION] = KNOWN("sec-websocket-version"),
};

const char *http_method_name(enum http_method method)
{
    return method_names[method];
}

static int refuse(struct http_head *h, int status, const char *why)
{
    h->why = why;
    return status;
}

/* "HTTP/1.1" and "HTTP/1.0"; other versions of that form are 505, anything else is malformed. */
static int parse_version(struct http_head *h, const char *p, size_t n)
{
    if (n != 8 || memcmp(p, "HTTP/", 5) != 0 || p[5] < '0' || p[5] > '9' || p[6] != '.' ||
        p[7] < '0' || p[7] > '9') {
        return refuse(h, 400, "malformed request line");
    }
    if (p[5] != '1' || p[7] > '1') {
        return refuse(h, 505, "only HTTP/1.1 and HTTP/1.0 are spoken here");
    }
    h->minor = (uint8_t)(p[7] - '0');
    return 0;
}

static int parse_method(struct http_head *h, const char *p, size_t n)
{
    for (size_t i = 0; i < HTTP_METHODS; i++) {
        if (strlen(method_names[i]) == n && memcmp(method_names[i], p, n) == 0) {
            h->method = (enum http_method)i;
            return 0;
        }
    }
    return refuse(h, 501, "unknown method");
}

static int parse_request_line(struct http_head *h, const char *p, size_t n)
{
    const char *end = p + n;
    const char *space = memchr(p, ' ', n);

    if (space == NULL || !http_is_token(p, (size_t)(space - p))) {
        return refuse(h, 400, "malformed method");
    }
    const char *target = space + 1;
    const char *target_end = memchr(target, ' ', (size_t)(end - target));
    if (target_end == NULL || target_end == target) {
        return refuse(h, 400, "malformed request line");
    }
    for (const char *c = target; c < target_end; c++) {
        if (*c <= 0x20 || *c >= 0x7f) {
            return refuse(h, 400, "control or non-ASCII byte in the target");
        }
    }
    if (target_end - target > HTTP_TARGET_MAX) {
        return refuse(h, 414, "target too long");
    }
    h->target = (uint16_t)(target - h->base);
    h->target_len = (uint16_t)(target_end - target);
    h->has_request_line = true;
    int status = parse_version(h, target_end + 1, (size_t)(end - target_end - 1));
    return status != 0 ? status : parse_method(h, p, (size_t)(space - p));
}

static int note_known(struct http_head *h, const struct http_field *f)
{
    const char *name = h->base + f->name;

    for (size_t i = 0; i < HTTP_KNOWN; i++) {
        if (known_names[i].len == f->name_len &&
            strncasecmp(known_names[i].name, name, f->name_len) == 0) {
            if (h->known[i] != 0) {
                return refuse(h, 400, "a header field that may stand only once is there twice");
            }
            h->known[i] = (uint8_t)(h->nfields + 1);
            break;
        }
    }
    return 0;
}

static int parse_field(struct http_head *h, const char *p, size_t n)
{
    const char *end = p + n;

    if (*p == ' ' || *p == '\t') {
        return refuse(h, 400, "folded header line");
    }
    const char *colon = memchr(p, ':', n);
    if (colon == NULL || !http_is_token(p, (size_t)(colon - p))) {
        return refuse(h, 400, "malformed header name");
    }
    const char *value = colon + 1;
    if (!http_is_value(value, (size_t)(end - value))) {
        return refuse(h, 400, "control byte in a header value");
    }
    while (value < end && (*value == ' ' || *value == '\t')) {
        value++;
    }
    while (end > value && (end[-1] == ' ' || end[-1] == '\t')) {
        end--;
    }
    if (h->nfields == HTTP_FIELDS_MAX) {
        return refuse(h, 431, "too many header fields");
    }
    struct http_field *f = &h->fields[h->nfields];
    *f = (struct http_field){(uint16_t)(p - h->base), (uint16_t)(colon - p),
                             (uint16_t)(value - h->base), (uint16_t)(end - value)};
    int status = note_known(h, f);
    h->nfields++;
    return status;
}

static int check_length(struct http_head *h, const char *text)
{
    uint64_t value = 0;
    size_t n = strlen(text);

    /* 18 digits are more than any disk holds, and cannot overflow. */
    if (n == 0 || n > 18 || strspn(text, "0123456789") != n) {
        return refuse(h, 400, "malformed Content-Length");
    }
    for (size_t i = 0; i < n; i++) {
        value = value * 10 + (uint64_t)(text[i] - '0');
    }
    h->has_length = true;
    h->content_length = value;
    return 0;
}

static int check_framing(struct http_head *h)
{
    const char *coding = http_head_known(h, HTTP_TRANSFER_ENCODING);
    const char *length = http_head_known(h, HTTP_CONTENT_LENGTH);

    if (coding == NULL) {
        return length == NULL ? 0 : check_length(h, length);
    }
    if (length != NULL) {
        return refuse(h, 400, "Content-Length beside Transfer-Encoding");
    }
    if (h->minor == 0) {
        return refuse(h, 400, "Transfer-Encoding in HTTP/1.0");
    }
    if (strcasecmp(coding, "chunked") != 0) {
        bool is_one = http_is_token(coding, strlen(coding));
        return refuse(h, is_one ? 501 : 400, "the only transfer coding here is chunked");
    }
    h->is_chunked = true;
    return 0;
}

/* Only HTTP/1.1 has 100 Continue; for 1.0 the expectation is to be ignored (RFC 9110, 10.1.1). */
static int check_expect(struct http_head *h)
{
    const char *expect = http_head_known(h, HTTP_EXPECT);

    if (expect == NULL || h->minor == 0) {
        return 0;
    }
    if (strcasecmp(expect, "100-continue") != 0) {
        return refuse(h, 417, "unknown expectation");
    }
    h->expects_continue = h->is_chunked || h->content_length > 0;
    return 0;
}

static int finish(struct http_head *h)
{
    struct http_host host;

    h->base[h->target + h->target_len] = '\0';
    for (size_t i = 0; i < h->nfields; i++) {
        h->base[h->fields[i].name + h->fields[i].name_len] = '\0';
        h->base[h->fields[i].value + h->fields[i].value_len] = '\0';
    }
    const char *name = http_head_known(h, HTTP_HOST);
    if (name == NULL || !http_host_parse(name, strlen(name), &host)) {
        return refuse(h, 400, "missing or malformed Host");
    }
    int status = check_framing(h);
    if (status == 0) {
        status = check_expect(h);
    }
    h->wants_close = h->minor == 0 || http_head_lists(h, "connection", "close");
    return status != 0 ? status : HTTP_HEAD_DONE;
}

static int parse_line(struct http_head *h, const char *p, size_t n)
{
    if (!h->has_request_line) {
        return parse_request_line(h, p, n);
    }
    return n == 0 ? finish(h) : parse_field(h, p, n);
}

/* Refuses at once an incomplete first line that can never become valid, e.g. a TLS hello. */
static int check_unfinished(struct http_head *h, size_t len)
{
    if (!h->has_request_line && len > h->line) {
        const char *p = h->base + h->line;
        if (*p != '\r' && !http_is_token(p, 1)) {
            return refuse(h, 400, "malformed method");
        }
    }
    if (len < HTTP_HEAD_MAX) {
        return HTTP_HEAD_MORE;
    }
    return h->has_request_line ? refuse(h, 431, "head too large")
                               : refuse(h, 414, "request line too long");
}

int http_head_parse(struct http_head *h, char *buf, size_t len)
{
    const char *lf;

    h->base = buf;
    len = MIN(len, (size_t)HTTP_HEAD_MAX);
    while ((lf = memchr(buf + h->line, '\n', len - h->line)) != NULL) {
        const char *p = buf + h->line;
        if (lf == p || lf[-1] != '\r') {
            return refuse(h, 400, "line not ended by CR LF");
        }
        bool was_first = h->line == 0;
        size_t n = (size_t)(lf - 1 - p);
        h->line = (uint16_t)(lf + 1 - buf);
        if (n == 0 && was_first) {
            continue; /* RFC 9112, 2.2: one empty line before a request is harmless */
        }
        int status = parse_line(h, p, n);
        if (status == HTTP_HEAD_DONE) {
            h->length = h->line;
        }
        if (status != 0) {
            return status;
        }
    }
    return check_unfinished(h, len);
}

const char *http_head_target(const struct http_head *h)
{
    return h->base + h->target;
}

const char *http_head_known(const struct http_head *h, enum http_known which)
{
    return h->known[which] == 0 ? NULL : h->base + h->fields[h->known[which] - 1].value;
}

const char *http_head_find(const struct http_head *h, const char *name)
{
    size_t n = strlen(name);

    for (size_t i = 0; i < h->nfields; i++) {
        const struct http_field *f = &h->fields[i];
        if (f->name_len == n && strncasecmp(h->base + f->name, name, n) == 0) {
            return h->base + f->value;
        }
    }
    return NULL;
}

bool http_head_lists(const struct http_head *h, const char *name, const char *token)
{
    size_t n = strlen(name);

    for (size_t i = 0; i < h->nfields; i++) {
        const struct http_field *f = &h->fields[i];
        if (f->name_len == n && strncasecmp(h->base + f->name, name, n) == 0 &&
            http_list_has(h->base + f->value, token)) {
            return true;
        }
    }
    return false;
}
