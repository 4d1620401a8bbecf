/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WebSockets; see websocket.h.
 *
 * wslay reads from the connection's block and writes to its output queue, so it never sees the
 * socket. It runs unbuffered: messages are put together here, where their length and number of
 * frames are bounded.
 */
#include "http/websocket.h"

#include <string.h>
#include <wslay/wslay.h>

#include "base/attr.h"
#include "http/conn.h"
#include "http/handshake.h"

struct http_websocket_link {
    struct http_websocket calls;
    wslay_event_context_ptr wslay;
    struct buf message;
    unsigned frames;
    bool is_control; /* the frame in hand */
    bool is_text;
    bool is_closing; /* a close frame was queued by us */
    uint64_t closing_at;
    uint64_t heard_at; /* last byte from the client */
    uint64_t pinged_at;
};

/* ---- what wslay calls ---- */

static ssize_t on_recv(wslay_event_context_ptr wslay, uint8_t *dst, size_t len, int flags,
                       void *user)
{
    struct http_conn *c = user;
    struct block *b = c->block;
    size_t n = MIN(len, b->end - b->start);

    if (n == 0) {
        wslay_event_set_error(wslay, WSLAY_ERR_WOULDBLOCK);
        return -1;
    }
    memcpy(dst, b->data + b->start, n);
    b->start += n;
    return (ssize_t)n;
}

static ssize_t on_send(wslay_event_context_ptr wslay, const uint8_t *data, size_t len, int flags,
                       void *user)
{
    struct http_conn *c = user;

    if (http_out_copy(&c->out, &c->server->pool, data, len) < 0) {
        wslay_event_set_error(wslay, WSLAY_ERR_CALLBACK_FAILURE);
        return -1;
    }
    return (ssize_t)len;
}

static void fail(struct http_websocket_link *link, uint16_t code)
{
    link->is_closing = true;
    wslay_event_queue_close(link->wslay, code, NULL, 0);
    wslay_event_shutdown_read(link->wslay);
}

/*
 * For a frame that it cannot read at all, wslay has queued a close without a code and takes no
 * other. So ours bypasses it, after the messages that the handler has sent.
 */
static int fail_unreadable(struct http_conn *c)
{
    static const uint8_t close_1002[] = {0x88, 2, WSLAY_CODE_PROTOCOL_ERROR >> 8,
                                         WSLAY_CODE_PROTOCOL_ERROR & 0xff};

    if (c->req.websocket->is_closing) {
        return 0;
    }
    c->req.websocket->is_closing = true;
    return http_out_copy(&c->out, &c->server->pool, close_1002, sizeof(close_1002));
}

static void on_frame_start(wslay_event_context_ptr wslay,
                           const struct wslay_event_on_frame_recv_start_arg *arg, void *user)
{
    struct http_conn *c = user;
    struct http_websocket_link *link = c->req.websocket;

    link->is_control = wslay_is_ctrl_frame(arg->opcode);
    if (arg->opcode == WSLAY_CONNECTION_CLOSE && arg->payload_length == 1) {
        fail(link, WSLAY_CODE_PROTOCOL_ERROR); /* a code has two bytes */
    }
    if (link->is_control) {
        return;
    }
    if (arg->opcode != WSLAY_CONTINUATION_FRAME) {
        link->is_text = arg->opcode == WSLAY_TEXT_FRAME;
    }
    if (++link->frames > c->server->config.limits.websocket_frames) {
        fail(link, WSLAY_CODE_POLICY_VIOLATION);
    } else if (arg->payload_length > link->message.max - link->message.len) {
        fail(link, WSLAY_CODE_MESSAGE_TOO_BIG);
    }
}

static void on_frame_chunk(wslay_event_context_ptr wslay,
                           const struct wslay_event_on_frame_recv_chunk_arg *arg, void *user)
{
    struct http_conn *c = user;
    struct http_websocket_link *link = c->req.websocket;

    if (!link->is_control && !link->is_closing &&
        buf_add(&link->message, arg->data, arg->data_length) < 0) {
        fail(link, WSLAY_CODE_INTERNAL_SERVER_ERROR);
    }
}

static void on_message(wslay_event_context_ptr wslay, const struct wslay_event_on_msg_recv_arg *arg,
                       void *user)
{
    struct http_conn *c = user;
    struct http_request *req = &c->req;
    struct http_websocket_link *link = req->websocket;

    if (arg->opcode == WSLAY_CONNECTION_CLOSE) {
        if (link->calls.on_close != NULL) {
            link->calls.on_close(req->user, req, arg->status_code);
        }
    } else if (!wslay_is_ctrl_frame(arg->opcode) && !link->is_closing) {
        const char *text = link->message.data != NULL ? link->message.data : "";
        link->calls.on_message(req->user, req, link->is_text, text, link->message.len);
        link->message.len = 0;
        link->frames = 0;
    }
}

static const struct wslay_event_callbacks wslay_calls = {
    .recv_callback = on_recv,
    .send_callback = on_send,
    .on_frame_recv_start_callback = on_frame_start,
    .on_frame_recv_chunk_callback = on_frame_chunk,
    .on_msg_recv_callback = on_message,
};

/* ---- opening ---- */

static struct http_websocket_link *link_new(struct http_conn *c,
                                            const struct http_websocket *callbacks)
{
    size_t most = c->server->config.limits.websocket_message;
    struct http_websocket_link *link = calloc(1, sizeof(*link));

    if (link == NULL || wslay_event_context_server_init(&link->wslay, &wslay_calls, c) != 0) {
        free(link);
        return NULL;
    }
    wslay_event_config_set_no_buffering(link->wslay, 1);
    wslay_event_config_set_max_recv_msg_length(link->wslay, most);
    link->calls = *callbacks;
    link->message = BUF_INIT(most);
    link->heard_at = uv_now(c->server->loop);
    link->pinged_at = link->heard_at;
    return link;
}

bool http_websocket_is_asked(const struct http_request *req)
{
    const struct http_head *h = &req->conn->block->head;

    return http_head_lists(h, "upgrade", "websocket") ||
           http_head_known(h, HTTP_WEBSOCKET_KEY) != NULL ||
           http_head_known(h, HTTP_WEBSOCKET_VERSION) != NULL;
}

int http_websocket_check(const struct http_request *req)
{
    const struct http_conn *c = req->conn;
    int status = http_handshake_check(&c->block->head);

    if (status != 0 || c->after == AFTER_NEXT) {
        return status;
    }
    /* The connection closes: the server stops, or the client asked for it. */
    return c->server->phase == SERVER_DRAINING ? 503 : 400;
}

void http_websocket_offer(struct http_request *req)
{
    http_add_header(req, "Upgrade", "websocket");
    http_add_header(req, "Sec-WebSocket-Version", "13");
    if (req->conn->after == AFTER_NEXT) {
        http_reply_field(req, "Connection", "Upgrade");
    }
}

static int refuse(struct http_request *req, int status, const char *why)
{
    if (status == 426) {
        http_websocket_offer(req);
    }
    http_reply_error(req, status, why);
    return -1;
}

int http_websocket(struct http_request *req, const struct http_websocket *callbacks,
                   const char *protocol)
{
    struct http_conn *c = req->conn;
    const struct http_head *h = &c->block->head;
    char accept[HTTP_WEBSOCKET_ACCEPT_SIZE];

    int status = http_websocket_check(req);
    if (status != 0) {
        return refuse(req, status, "no proper WebSocket handshake");
    }
    if (!http_reply_may_start(req)) {
        return -1;
    }
    http_handshake_accept(http_head_known(h, HTTP_WEBSOCKET_KEY), accept);
    http_add_header(req, "Upgrade", "websocket");
    http_reply_field(req, "Connection", "Upgrade");
    http_add_header(req, "Sec-WebSocket-Accept", accept);
    if (protocol != NULL) {
        http_add_header(req, "Sec-WebSocket-Protocol", protocol);
    }
    req->websocket = link_new(c, callbacks);
    if (req->websocket == NULL) {
        http_reply_close(req);
        http_conn_doom(c);
        return -1;
    }
    return http_reply_head(req, 101, NULL, HTTP_LENGTH_UNKNOWN);
}

/* ---- in use ---- */

static int push(struct http_request *req)
{
    struct http_conn *c = req->conn;
    const struct http_limits *limits = &c->server->config.limits;

    http_conn_wake(c);
    if (wslay_event_send(req->websocket->wslay) != 0) {
        http_conn_doom(c);
        return -1;
    }
    req->was_full = req->was_full || c->out.queued > limits->queue_high;
    return 0;
}

int http_websocket_send(struct http_request *req, bool is_text, const void *data, size_t len)
{
    struct http_websocket_link *link = req->websocket;
    struct http_conn *c = req->conn;
    struct wslay_event_msg msg = {
        .opcode = is_text ? WSLAY_TEXT_FRAME : WSLAY_BINARY_FRAME,
        .msg = data,
        .msg_length = len,
    };

    if (link == NULL || req->reply != REPLY_OPEN || http_conn_is_lost(c)) {
        return -1;
    }
    /*
     * Checked before and not after: a single message may have any length, but a sender that never
     * waits is stopped.
     */
    if (c->out.queued > c->server->config.limits.queue_max) {
        http_conn_doom(c);
        return -1;
    }
    if (wslay_event_queue_msg(link->wslay, &msg) != 0) {
        return -1;
    }
    return push(req);
}

void http_websocket_close(struct http_request *req, unsigned code, const char *reason)
{
    struct http_websocket_link *link = req->websocket;
    size_t len = reason == NULL ? 0 : MIN(strlen(reason), (size_t)120);

    if (link == NULL || link->is_closing || http_conn_is_gone(req->conn)) {
        return;
    }
    link->is_closing = true;
    link->closing_at = uv_now(req->conn->server->loop);
    if (wslay_event_queue_close(link->wslay, (uint16_t)code, (const uint8_t *)reason, len) != 0) {
        http_conn_doom(req->conn);
        return;
    }
    push(req);
}

/* ---- what the connection asks ---- */

bool http_websocket_wants_input(const struct http_request *req)
{
    const struct http_conn *c = req->conn;

    return wslay_event_want_read(req->websocket->wslay) &&
           c->out.queued <= c->server->config.limits.queue_high;
}

bool http_websocket_step(struct http_conn *c)
{
    struct http_request *req = &c->req;
    struct http_websocket_link *link = req->websocket;
    struct block *b = c->block;
    size_t before = b->start;
    bool is_over = false;

    if (req->reply >= REPLY_DONE) {
        return false;
    }
    if (b->start < b->end && http_websocket_wants_input(req)) {
        link->heard_at = uv_now(c->server->loop);
        int r = wslay_event_recv(link->wslay);
        is_over = r == WSLAY_ERR_CALLBACK_FAILURE && fail_unreadable(c) == 0;
        if (r != 0 && !is_over) {
            http_conn_doom(c);
            return false;
        }
    }
    bool has_output = !is_over && wslay_event_want_write(link->wslay);
    if (has_output && push(req) < 0) {
        return false;
    }
    is_over =
        is_over || (!wslay_event_want_read(link->wslay) && !wslay_event_want_write(link->wslay));
    if (is_over) {
        http_reply_enter(req, REPLY_DONE); /* both sides closed, or the client broke the rules */
        http_conn_end_after(c, AFTER_LINGER);
        return true;
    }
    if (c->input == INPUT_ENDED && b->start == b->end) {
        http_conn_doom(c);
        return false;
    }
    return has_output || b->start != before;
}

void http_websocket_goodbye(struct http_request *req)
{
    http_websocket_close(req, WSLAY_CODE_GOING_AWAY, NULL);
}

void http_websocket_tick(struct http_request *req, uint64_t now)
{
    struct http_websocket_link *link = req->websocket;
    const struct http_limits *limits = &req->conn->server->config.limits;
    struct wslay_event_msg ping = {.opcode = WSLAY_PING};

    if (req->conn->out.first != NULL) {
        /*
         * A slow reader: the ping or close is queued behind all this, and write_ms makes sure that
         * the client takes some of it.
         */
        link->heard_at = now;
        link->closing_at = now;
        return;
    }
    if ((link->is_closing && now - link->closing_at > limits->head_ms) ||
        now - link->heard_at > 2ULL * limits->ping_ms) {
        req->conn->server->stats.timeouts++;
        http_conn_doom(req->conn);
    } else if (!link->is_closing && now - link->pinged_at >= limits->ping_ms) {
        link->pinged_at = now;
        if (wslay_event_queue_msg(link->wslay, &ping) == 0) {
            push(req);
        }
    }
}

void http_websocket_free(struct http_request *req)
{
    struct http_websocket_link *link = TAKE_PTR(req->websocket);

    if (link != NULL) {
        wslay_event_context_free(link->wslay);
        buf_release(&link->message);
        free(link);
    }
}
