/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of requests: decoded in the block and passed on, collected or skipped. See conn.h. */
#include <assert.h>

#include "base/attr.h"
#include "http/conn.h"

static const bool can_use[BODY_MODES][BODY_MODES] = {
    [BODY_WAITING] = {[BODY_COLLECT] = true, [BODY_STREAM] = true, [BODY_DISCARD] = true},
    [BODY_COLLECT] = {[BODY_DISCARD] = true},
    [BODY_STREAM] = {[BODY_DISCARD] = true},
};

void http_body_use(struct http_request *req, enum body_mode mode)
{
    assert(can_use[req->body_mode][mode]);
    req->body_mode = mode;
}

/* A client that expects 100 Continue sends its body only after this. */
static void send_continue(struct http_request *req)
{
    static const char line[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct http_conn *c = req->conn;

    if (req->is_continue_due && !http_conn_is_gone(c)) {
        req->is_continue_due = false;
        if (http_out_copy(&c->out, &c->server->pool, line, sizeof(line) - 1) < 0) {
            http_conn_doom(c);
        }
    }
}

static void start_body(struct http_request *req, enum body_mode mode, uint64_t max)
{
    struct http_conn *c = req->conn;
    const struct http_head *h = &c->block->head;

    if (req->reply == REPLY_REFUSED) {
        return;
    }
    if (http_conn_is_gone(c)) { /* no body will come, and no client waits for the answer */
        http_reply_close(req);
        http_conn_wake(c);
        return;
    }
    req->body_max = max;
    http_body_use(req, mode);
    c->window_start = uv_now(c->server->loop);
    c->window_bytes = 0;
    if (h->content_length > max) {
        http_request_refuse(req, 413, "body too large");
    } else {
        send_continue(req);
    }
    http_conn_wake(c);
}

void http_collect(struct http_request *req, size_t max,
                  void (*on_body)(void *user, struct http_request *req, char *data, size_t len))
{
    req->on_body = on_body;
    req->body = BUF_INIT(max);
    start_body(req, BODY_COLLECT, max);
}

void http_stream_body(struct http_request *req, const struct http_sink *sink)
{
    req->sink = *sink;
    start_body(req, BODY_STREAM, sink->max);
}

void http_body_pause(struct http_request *req)
{
    req->is_body_paused = true;
}

void http_body_resume(struct http_request *req)
{
    req->is_body_paused = false;
    http_conn_wake(req->conn);
}

bool http_body_wants_input(const struct http_request *req)
{
    if (req->body_progress != BODY_COMING) {
        return false;
    }
    switch (req->body_mode) {
    case BODY_WAITING:
        return false;
    case BODY_DISCARD:
        return req->conn->after == AFTER_NEXT;
    case BODY_COLLECT:
    case BODY_STREAM:
        break;
    }
    return !req->is_body_paused;
}

/* The answer is on its way; the connection closes after it. */
static void stop_discarding(struct http_request *req)
{
    http_conn_end_after(req->conn, AFTER_LINGER);
}

static void deliver(struct http_request *req, const char *data, size_t len)
{
    uint64_t most = req->body_mode == BODY_DISCARD ? DISCARD_MOST : req->body_max;

    req->body_got += len;
    if (req->body_got > most && req->body_mode != BODY_WAITING) {
        if (req->body_mode == BODY_DISCARD) {
            stop_discarding(req);
        } else {
            http_request_refuse(req, 413, "body too large");
        }
        return;
    }
    if (req->body_mode == BODY_COLLECT && buf_add(&req->body, data, len) < 0) {
        http_conn_doom(req->conn);
    } else if (req->body_mode == BODY_STREAM) {
        req->sink.on_data(req->user, req, data, len);
    }
}

/* No copy when the whole body is in the block already, as it is for nearly all requests. */
static bool collect_in_place(struct http_request *req, struct block *b)
{
    uint64_t n = req->body_left;

    if (req->body_mode != BODY_COLLECT || b->head.is_chunked || req->body_got > 0 ||
        b->end - b->start < n) {
        return false;
    }
    char *data = b->data + b->start;
    b->start += (size_t)n;
    b->floor = b->start;
    req->body_left = 0;
    req->body_progress = BODY_TOLD;
    req->on_body(req->user, req, data, (size_t)n);
    return true;
}

static void take_sized(struct http_request *req, struct block *b)
{
    size_t n = (size_t)MIN(req->body_left, (uint64_t)(b->end - b->start));
    const char *data = b->data + b->start;

    b->start += n;
    req->body_left -= n;
    if (req->body_left == 0) {
        req->body_progress = BODY_COMPLETE;
    }
    deliver(req, data, n);
}

static void take_chunked(struct http_request *req, struct block *b)
{
    const char *data = NULL;
    size_t len = 0;
    size_t used = 0;

    enum http_chunked_step step =
        http_chunked_next(&req->chunked, b->data + b->start, b->end - b->start, &used, &data, &len);
    b->start += used;
    switch (step) {
    case HTTP_CHUNKED_BAD:
        if (req->body_mode == BODY_DISCARD) {
            stop_discarding(req);
        } else {
            http_request_refuse(req, 400, "malformed chunked body");
        }
        break;
    case HTTP_CHUNKED_PIECE:
        deliver(req, data, len);
        break;
    case HTTP_CHUNKED_END:
        req->body_progress = BODY_COMPLETE;
        break;
    case HTTP_CHUNKED_MORE:
        break;
    }
}

/* Calls the handler once when the body is complete. */
static bool tell_end(struct http_request *req)
{
    if (req->body_progress != BODY_COMPLETE || req->reply >= REPLY_DONE) {
        return false;
    }
    if (req->body_mode == BODY_COLLECT) {
        req->body_progress = BODY_TOLD;
        req->on_body(req->user, req, req->body.data, req->body.len);
        return true;
    }
    if (req->body_mode == BODY_STREAM && !req->is_body_paused) {
        req->body_progress = BODY_TOLD;
        req->sink.on_end(req->user, req);
        return true;
    }
    return false;
}

bool http_body_step(struct http_conn *c)
{
    struct http_request *req = &c->req;
    struct block *b = c->block;

    if (req->reply >= REPLY_DONE && req->body_progress == BODY_COMING &&
        req->body_mode != BODY_DISCARD) {
        http_body_use(req, BODY_DISCARD); /* answered before the body was complete */
        req->body_got = 0;
    }
    if (http_body_wants_input(req) && b->start < b->end) {
        if (!collect_in_place(req, b)) {
            (b->head.is_chunked ? take_chunked : take_sized)(req, b);
        }
        return true;
    }
    return tell_end(req);
}
