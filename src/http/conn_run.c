/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work of a connection; see conn.h.
 *
 * http_conn_run() takes steps (parse a head, pass on a body, end a request) until it needs more
 * input or output space, sends what is queued, and arms the poll for what it needs.
 */
#include <sys/socket.h>

#include "http/conn.h"

#define TURNS 8 /* rounds of steps and sending before other connections run */

void http_conn_refuse(struct http_conn *c, int status, const char *why)
{
    c->server->stats.refused++;
    http_conn_end_after(c, AFTER_LINGER);
    http_conn_enter(c, CONN_CLOSING);
    http_reply_refusal(c, NULL, status, why);
}

/* No more heads are parsed while too much output waits for the client. */
static bool is_held(const struct http_conn *c)
{
    return c->phase == CONN_HEAD && c->out.queued > c->server->config.limits.queue_high;
}

static bool step_head(struct http_conn *c)
{
    struct block *b = c->block;
    bool has_bytes = b != NULL && b->start < b->end;
    bool is_leaving = c->server->phase == SERVER_DRAINING && c->has_served && !has_bytes;

    if (is_held(c)) {
        return false;
    }
    int status = has_bytes ? http_head_parse(&b->head, b->data + b->start, b->end - b->start)
                           : HTTP_HEAD_MORE;
    if (status == HTTP_HEAD_MORE) {
        if (c->input == INPUT_ENDED || is_leaving) {
            http_conn_end_after(c, AFTER_CLOSE);
            http_conn_enter(c, CONN_CLOSING);
        }
        return false;
    }
    c->server->stats.heads++;
    if (status != HTTP_HEAD_DONE) {
        http_conn_refuse(c, status, b->head.why);
        return false;
    }
    http_block_pin_head(b);
    http_conn_enter(c, CONN_REQUEST);
    http_request_begin(c);
    return true;
}

static void leave_request(struct http_conn *c)
{
    struct block *b = c->block;

    http_conn_enter(c, c->after == AFTER_NEXT ? CONN_HEAD : CONN_CLOSING);
    if (c->input == INPUT_OFF) {
        c->input = INPUT_ON;
    }
    if (b->start == b->end) {
        http_block_give(c);
        return;
    }
    http_block_start_head(b);
}

static bool step_request(struct http_conn *c)
{
    struct http_request *req = &c->req;

    if (c->has_hung_up && (req->is_sse || req->websocket != NULL)) {
        http_conn_doom(c);
        return false;
    }
    if (c->has_hung_up && req->on_hangup != NULL) {
        void (*tell)(void *, struct http_request *) = req->on_hangup;
        req->on_hangup = NULL;
        tell(req->user, req);
        return true;
    }
    if (req->websocket != NULL ? http_websocket_step(c) : http_body_step(c)) {
        return true;
    }
    if (req->body_progress == BODY_COMING && c->input == INPUT_ENDED) {
        http_conn_doom(c);
        return false;
    }
    if (!http_request_can_end(c)) {
        return false;
    }
    if (req->body_progress == BODY_COMING) {
        http_conn_end_after(c, AFTER_LINGER);
    }
    http_request_end(c, req->reply == REPLY_REFUSED ? HTTP_GONE : HTTP_ANSWERED);
    if (c->phase == CONN_REQUEST) { /* on_done may have freed the server */
        leave_request(c);
    }
    return true;
}

static bool step(struct http_conn *c)
{
    return c->phase == CONN_HEAD ? step_head(c) : c->phase == CONN_REQUEST && step_request(c);
}

/* ---- output and what comes next ---- */

static void flush(struct http_conn *c)
{
    struct http_server *s = c->server;
    uint64_t sent = 0;

    if (c->out.first == NULL || http_conn_is_lost(c)) {
        return;
    }
    if (http_out_flush(&c->out, &s->pool, c->fd, &sent) < 0) {
        http_conn_doom(c);
    }
    c->sent += sent;
    if (sent > 0) {
        c->wrote_at = uv_now(s->loop);
    }
}

/* True if sending has made more steps possible. */
static bool after_flush(struct http_conn *c, bool was_held)
{
    struct http_request *req = &c->req;

    if (c->phase != CONN_REQUEST) {
        return was_held && c->phase == CONN_HEAD && c->out.first == NULL;
    }
    if (req->was_full && c->out.queued <= c->server->config.limits.queue_low) {
        req->was_full = false;
        if (req->on_drain != NULL && req->reply == REPLY_OPEN) {
            req->on_drain(req->user, req);
            return true;
        }
    }
    return http_request_can_end(c);
}

/* Everything is sent and no more requests will be read. */
static void finish_closing(struct http_conn *c)
{
    bool has_rest = c->block != NULL && c->block->start < c->block->end;
    bool must_linger = c->input != INPUT_ENDED && (c->after == AFTER_LINGER || has_rest);

    http_conn_enter(c, must_linger && shutdown(c->fd, SHUT_WR) == 0 ? CONN_LINGER : CONN_DOOMED);
}

static void arm(struct http_conn *c)
{
    int events = c->out.first != NULL ? UV_WRITABLE : 0;

    if (http_conn_wants_input(c) || (c->phase == CONN_REQUEST && c->input == INPUT_ON)) {
        events |= UV_READABLE;
    } else if (!c->has_hung_up && c->input != INPUT_ENDED) {
        events |= UV_DISCONNECT;
    }
    if (events == 0) {
        events = UV_PRIORITIZED; /* only reports errors; see http_conn_on_poll() */
    }
    if (events == c->armed) {
        return;
    }
    c->armed = events;
    if (uv_poll_start(&c->poll, events, http_conn_on_poll) != 0) {
        http_conn_doom(c);
    }
}

/* Ends the request of a dropped connection once its handler has answered or set on_done. */
static void release_orphan(struct http_conn *c)
{
    if (c->phase == CONN_ORPHAN && (c->req.reply >= REPLY_DONE || c->req.on_done != NULL)) {
        http_conn_enter(c, CONN_DEAD);
        http_request_end(c, HTTP_GONE);
    }
}

void http_conn_run(struct http_conn *c)
{
    bool was_held = false;
    int turns = 0;

    c->turn = TURN_RUNNING;
    if (c->out.first == NULL) {
        c->wrote_at = uv_now(c->server->loop);
        c->taken_at = 0;
    }
    do {
        while (step(c)) {
        }
        was_held = is_held(c);
        flush(c);
    } while (after_flush(c, was_held) && ++turns < TURNS);
    if (c->phase == CONN_CLOSING && c->out.first == NULL) {
        finish_closing(c);
    }
    if (c->phase == CONN_DOOMED || (c->phase == CONN_LINGER && c->input == INPUT_ENDED)) {
        http_conn_kill(c, false);
    }
    release_orphan(c);
    c->turn = TURN_NONE;
    if (http_conn_is_gone(c)) {
        http_conn_forget(c);
        return;
    }
    if (turns == TURNS) {
        http_conn_wake(c);
    }
    arm(c);
}
