/* SPDX-License-Identifier: Apache-2.0 */
/* Answers: heads, whole bodies, and bodies piece by piece. See request.h and conn.h. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/attr.h"
#include "base/str.h"
#include "http/conn.h"
#include "http/field.h"
#include "http/status.h"

#define HEAD_ROOM 512 /* everything in a head but type and added fields */
#define TYPE_MAX 256

static const bool can_enter[REPLY_PHASES][REPLY_PHASES] = {
    [REPLY_IDLE] = {[REPLY_DUE] = true},
    [REPLY_DUE] = {[REPLY_OPEN] = true, [REPLY_DONE] = true, [REPLY_REFUSED] = true},
    [REPLY_OPEN] = {[REPLY_DONE] = true, [REPLY_REFUSED] = true},
};

void http_reply_enter(struct http_request *req, enum reply_phase phase)
{
    assert(can_enter[req->reply][phase]);
    req->reply = phase;
}

void http_reply_close(struct http_request *req)
{
    if (req->reply < REPLY_DONE) {
        http_reply_enter(req, REPLY_DONE);
    }
}

static char *put(char *p, const char *text, size_t n)
{
    memcpy(p, text, n);
    return p + n;
}

static char *put_text(char *p, const char *text)
{
    return put(p, text, strlen(text));
}

static char *put_number(char *p, uint64_t value)
{
    char digits[20];
    size_t n = 0;

    do {
        digits[n++] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    while (n > 0) {
        *p++ = digits[--n];
    }
    return p;
}

/* ---- heads ---- */

/* The rest of the body is too long, or may never come: the connection cannot be reused. */
static bool body_forbids_reuse(const struct http_request *req)
{
    return req->body_progress == BODY_COMING &&
           (req->is_continue_due || req->body_left > DISCARD_MOST);
}

/*
 * Writes a head to the queue. fields: added lines, or NULL. length: HTTP_LENGTH_UNKNOWN for none.
 */
static int write_head(struct http_conn *c, int status, const char *type, uint64_t length,
                      const struct buf *fields)
{
    size_t more = fields == NULL ? 0 : fields->len;
    size_t type_len = type == NULL ? 0 : strlen(type);

    char *start = http_out_reserve(&c->out, &c->server->pool, HEAD_ROOM + type_len + more);
    if (start == NULL) {
        http_conn_doom(c);
        return -1;
    }
    char *p = put_text(start, "HTTP/1.1 ");
    p = put_number(p, (uint64_t)status);
    *p++ = ' ';
    p = put_text(p, http_reason(status));
    p = put_text(p, "\r\nDate: ");
    p = put_text(p, http_server_date(c->server));
    if (type != NULL) {
        p = put_text(p, "\r\nContent-Type: ");
        p = put(p, type, type_len);
    }
    if (c->req.framing == FRAMING_CHUNKED) {
        p = put_text(p, "\r\nTransfer-Encoding: chunked");
    } else if (length != HTTP_LENGTH_UNKNOWN) {
        p = put_text(p, "\r\nContent-Length: ");
        p = put_number(p, length);
    }
    if (c->after != AFTER_NEXT) {
        p = put_text(p, "\r\nConnection: close");
    }
    p = put(p, "\r\n", 2);
    if (more > 0) {
        p = put(p, fields->data, more);
    }
    p = put(p, "\r\n", 2);
    http_out_commit(&c->out, (size_t)(p - start));
    return 0;
}

/* False when no client will get the answer. A second answer is a bug of the handler. */
bool http_reply_may_start(struct http_request *req)
{
    struct http_conn *c = req->conn;

    if (req->reply == REPLY_REFUSED) {
        return false;
    }
    assert(req->reply == REPLY_DUE);
    http_conn_wake(c);
    if (http_conn_is_lost(c)) {
        http_reply_close(req);
        return false;
    }
    return true;
}

/*
 * Starts an answer of known or unknown length and leaves it open. -1 when it became an error
 * (already answered) or no client will get it.
 */
int http_reply_head(struct http_request *req, int status, const char *type, uint64_t length)
{
    struct http_conn *c = req->conn;
    const struct http_head *h = &c->block->head;
    bool is_type_bad =
        type != NULL && (strlen(type) > TYPE_MAX || !http_is_value(type, strlen(type)));

    if (req->are_fields_bad || is_type_bad) {
        http_request_refuse(req, 500, "the answer had a malformed header field");
        return -1;
    }
    bool never_has_body = status == 101 || status == 204 || status == 304;
    http_reply_enter(req, REPLY_OPEN);
    req->framing = never_has_body || h->method == HTTP_HEAD ? FRAMING_NO_BODY
                   : length != HTTP_LENGTH_UNKNOWN          ? FRAMING_SIZED
                   : h->minor == 1                          ? FRAMING_CHUNKED
                                                            : FRAMING_CLOSE;
    req->reply_left = length;
    if (body_forbids_reuse(req) || c->server->phase == SERVER_DRAINING ||
        req->framing == FRAMING_CLOSE) {
        http_conn_end_after(c, AFTER_CLOSE);
    }
    return write_head(c, status, type, never_has_body ? HTTP_LENGTH_UNKNOWN : length, &req->fields);
}

/* Fields that the server writes by itself: a second one could break the framing. */
static bool is_reserved(const char *name)
{
    static const char *const names[] = {"Connection", "Content-Length", "Content-Type", "Date",
                                        "Transfer-Encoding"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (strcasecmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

void http_reply_field(struct http_request *req, const char *name, const char *value)
{
    size_t before = req->fields.len;

    if (!http_is_token(name, strlen(name)) || !http_is_value(value, strlen(value)) ||
        buf_add_str(&req->fields, name) < 0 || buf_add(&req->fields, ": ", 2) < 0 ||
        buf_add_str(&req->fields, value) < 0 || buf_add(&req->fields, "\r\n", 2) < 0) {
        req->fields.len = before;
        req->are_fields_bad = true;
    }
}

void http_add_header(struct http_request *req, const char *name, const char *value)
{
    if (is_reserved(name)) {
        req->are_fields_bad = true;
        return;
    }
    http_reply_field(req, name, value);
}

/* ---- errors ---- */

static void error_text(struct http_conn *c, const struct http_request *req, int status,
                       const char *why, struct http_error_text *ret)
{
    const struct http_config *config = &c->server->config;
    char plain[512];

    ret->fields[0] = '\0';
    if (config->error_body != NULL) {
        config->error_body(config->user, req, status, why, ret);
        return;
    }
    str_printable(plain, sizeof(plain), why, strlen(why));
    for (char *p = plain; *p != '\0'; p++) {
        if (*p == '"' || *p == '\\' || *p == '\n' || *p == '\t') {
            *p = ' '; /* characters that JSON would have to escape */
        }
    }
    (void)str_format(ret->body, sizeof(ret->body), "{\"error\":\"%s\"}\n", plain);
    ret->len = strlen(ret->body);
}

void http_reply_refusal(struct http_conn *c, const struct http_request *req, int status,
                        const char *why)
{
    struct http_error_text text;
    char lines[sizeof(text.fields) + 32];
    bool is_head = req != NULL && c->block->head.method == HTTP_HEAD;
    bool is_full = status == 429 || status == 503;

    error_text(c, req, status, why, &text);
    (void)str_format(lines, sizeof(lines), "%s%s", is_full ? "Retry-After: 1\r\n" : "",
                     text.fields);
    const struct buf fields = {.data = lines, .len = strlen(lines)};
    c->req.framing = FRAMING_SIZED;
    if (write_head(c, status, "application/json", text.len, &fields) == 0 && !is_head &&
        http_out_copy(&c->out, &c->server->pool, text.body, text.len) < 0) {
        http_conn_doom(c);
    }
    http_conn_wake(c);
}

void http_reply_error(struct http_request *req, int status, const char *why)
{
    struct http_error_text text;

    if (req->reply != REPLY_REFUSED) {
        error_text(req->conn, req, status, why, &text);
        http_reply(req, status, "application/json", text.body, text.len);
    }
}

/* ---- whole answers ---- */

enum memory { MEMORY_COPIED, MEMORY_TAKEN, MEMORY_STATIC };

static void reply(struct http_request *req, int status, const char *type, struct iovec *body,
                  enum memory memory)
{
    struct http_conn *c = req->conn;
    int r = 0;

    if (!http_reply_may_start(req) || http_reply_head(req, status, type, body->iov_len) < 0 ||
        req->framing == FRAMING_NO_BODY) {
        r = -1;
    } else if (memory == MEMORY_COPIED) {
        r = http_out_copy(&c->out, &c->server->pool, body->iov_base, body->iov_len);
    } else if (memory == MEMORY_STATIC) {
        r = http_out_borrow(&c->out, body->iov_base, body->iov_len);
    } else {
        r = http_out_take(&c->out, TAKE_PTR(body->iov_base), body->iov_len);
    }
    if (memory == MEMORY_TAKEN) {
        free(body->iov_base);
    }
    if (r == -ENOMEM) {
        http_conn_doom(c);
    }
    http_reply_close(req);
}

void http_reply(struct http_request *req, int status, const char *type, const void *data,
                size_t len)
{
    struct iovec body = {(void *)data, len};

    reply(req, status, type, &body, MEMORY_COPIED);
}

void http_reply_owned(struct http_request *req, int status, const char *type, char *data,
                      size_t len)
{
    struct iovec body = {data, len};

    reply(req, status, type, &body, MEMORY_TAKEN);
}

void http_reply_static(struct http_request *req, int status, const char *type, const void *data,
                       size_t len)
{
    struct iovec body = {(void *)data, len};

    reply(req, status, type, &body, MEMORY_STATIC);
}

/* ---- piece by piece ---- */

void http_begin(struct http_request *req, int status, const char *type, uint64_t length)
{
    if (http_reply_may_start(req)) {
        http_reply_head(req, status, type, length);
    }
}

static int queue_piece(struct http_request *req, const void *data, size_t len)
{
    struct http_conn *c = req->conn;
    struct http_pool *pool = &c->server->pool;
    char size[24];

    if (req->framing != FRAMING_CHUNKED) {
        return http_out_copy(&c->out, pool, data, len);
    }
    int n = snprintf(size, sizeof(size), "%zx\r\n", len);
    int r = http_out_copy(&c->out, pool, size, (size_t)n);
    if (r == 0) {
        r = http_out_copy(&c->out, pool, data, len);
    }
    return r == 0 ? http_out_copy(&c->out, pool, "\r\n", 2) : r;
}

int http_write(struct http_request *req, const void *data, size_t len)
{
    struct http_conn *c = req->conn;
    const struct http_limits *limits = &c->server->config.limits;

    if (req->reply != REPLY_OPEN || http_conn_is_lost(c)) {
        return -1;
    }
    if (req->reply_left != HTTP_LENGTH_UNKNOWN) {
        assert(len <= req->reply_left);
        req->reply_left -= len;
    }
    if (len == 0 || req->framing == FRAMING_NO_BODY) {
        return 0;
    }
    if (c->out.queued > limits->queue_max || queue_piece(req, data, len) < 0) {
        http_conn_doom(c);
        return -1;
    }
    req->was_full = req->was_full || c->out.queued > limits->queue_high;
    http_conn_wake(c);
    return 0;
}

void http_reply_finish(struct http_request *req, enum reply_phase phase)
{
    struct http_conn *c = req->conn;

    assert(req->reply == REPLY_OPEN);
    http_reply_enter(req, phase);
    http_conn_wake(c);
    if (http_conn_is_gone(c)) {
        return;
    }
    bool is_short = req->framing == FRAMING_SIZED && req->reply_left > 0;
    if (is_short || (req->framing == FRAMING_CHUNKED &&
                     http_out_copy(&c->out, &c->server->pool, "0\r\n\r\n", 5) < 0)) {
        http_conn_doom(c); /* closing is the only way to show that the length was wrong */
    }
}

void http_end(struct http_request *req)
{
    if (req->reply < REPLY_DONE) { /* else no client waits for it */
        http_reply_finish(req, REPLY_DONE);
    }
}

bool http_is_full(const struct http_request *req)
{
    return req->conn->out.queued > req->conn->server->config.limits.queue_high;
}

void http_on_drain(struct http_request *req, void (*on_drain)(void *user, struct http_request *req))
{
    req->on_drain = on_drain;
}
