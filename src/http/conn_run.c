/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work of a connection; see conn.h.
 *
 * http_conn_run() takes steps (parse a head, hand on body, end a request) until nothing more can be
 * done with what is there, sends what was queued, and arms the poll for what is missing.
 */
#include <sys/socket.h>

#include "http/conn.h"

#define TURNS 8 /* rounds of steps and sending before other connections get their turn */

void http_conn_refuse(struct http_conn *c, int status, const char *why)
{
    c->server->stats.refused++;
    c->is_closing = true;
    c->is_lingering = true;
    http_reply_refusal(c, NULL, status, why);
}

static bool step_head(struct http_conn *c)
{
    struct block *b = c->block;

    c->is_held = c->out.queued > c->server->config.limits.queue_high;
    if (c->is_closing || c->is_held) {
        return false;
    }
    if (b == NULL || b->start == b->end) {
        c->is_closing = c->is_eof || (c->server->is_draining && c->has_served);
        return false;
    }
    int status = http_head_parse(&b->head, b->data + b->start, b->end - b->start);
    if (status == HTTP_HEAD_MORE) {
        c->is_closing = c->is_eof;
        return false;
    }
    c->server->stats.heads++;
    if (status != HTTP_HEAD_DONE) {
        http_conn_refuse(c, status, b->head.why);
        return false;
    }
    http_block_pin_head(b);
    c->state = CONN_REQUEST;
    http_request_begin(c);
    return true;
}

static void begin_next_head(struct http_conn *c)
{
    struct block *b = c->block;

    c->state = CONN_HEAD;
    c->since = uv_now(c->server->loop);
    c->is_read_off = false;
    if (b == NULL) {
        return;
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
        c->is_doomed = true;
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
    if (!req->is_body_done && c->is_eof) {
        c->is_doomed = true;
        return false;
    }
    if (!http_request_can_end(c)) {
        return false;
    }
    c->is_lingering = c->is_lingering || !req->is_body_done;
    http_request_end(c, req->is_refused ? HTTP_GONE : HTTP_ANSWERED);
    begin_next_head(c);
    return true;
}

static bool step(struct http_conn *c)
{
    if (c->is_doomed) {
        return false;
    }
    switch (c->state) {
    case CONN_HEAD:
        return step_head(c);
    case CONN_REQUEST:
        return step_request(c);
    case CONN_LINGER:
    case CONN_DEAD:
        break;
    }
    return false;
}

/* ---- output and what comes next ---- */

static void flush(struct http_conn *c)
{
    struct http_server *s = c->server;
    uint64_t sent = 0;

    if (c->out.first == NULL || c->is_doomed || c->state == CONN_DEAD) {
        return;
    }
    if (http_out_flush(&c->out, &s->pool, c->fd, &sent) < 0) {
        c->is_doomed = true;
    }
    if (sent > 0) {
        c->wrote_at = uv_now(s->loop);
    }
}

/* After sending: true if somebody can go on because of it. */
static bool after_flush(struct http_conn *c)
{
    struct http_request *req = &c->req;

    if (c->is_doomed || c->state != CONN_REQUEST) {
        return c->is_held && !c->is_doomed && c->state == CONN_HEAD && c->out.first == NULL;
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

/* The answer is out and nothing more will be read as a request. */
static void finish_closing(struct http_conn *c)
{
    bool has_rest = c->block != NULL && c->block->start < c->block->end;

    if (!c->is_eof && (c->is_lingering || has_rest) && shutdown(c->fd, SHUT_WR) == 0) {
        c->state = CONN_LINGER;
        c->since = uv_now(c->server->loop);
        return;
    }
    c->is_doomed = true;
}

static void arm(struct http_conn *c)
{
    int events = c->out.first != NULL ? UV_WRITABLE : 0;

    if (http_conn_wants_input(c) || (c->state == CONN_REQUEST && !c->is_read_off && !c->is_eof)) {
        events |= UV_READABLE;
    } else if (!c->has_hung_up && !c->is_eof) {
        events |= UV_DISCONNECT;
    }
    if (events == 0) {
        events = UV_PRIORITIZED; /* only to hear of errors; see http_conn_on_poll() */
    }
    if (events == c->armed) {
        return;
    }
    c->armed = events;
    if (uv_poll_start(&c->poll, events, http_conn_on_poll) != 0) {
        http_conn_doom(c);
    }
}

/* Its handler has answered at last, or wants to be told after all. */
static void release_orphan(struct http_conn *c)
{
    if (c->is_orphan && (c->req.reply == REPLY_DONE || c->req.on_done != NULL)) {
        c->is_orphan = false;
        http_request_end(c, HTTP_GONE);
    }
}

void http_conn_run(struct http_conn *c)
{
    int turns = 0;

    c->is_running = true;
    if (c->out.first == NULL) {
        c->wrote_at = uv_now(c->server->loop);
    }
    do {
        while (step(c)) {
        }
        flush(c);
    } while (after_flush(c) && ++turns < TURNS);
    if (c->state == CONN_HEAD && c->is_closing && c->out.first == NULL && !c->is_doomed) {
        finish_closing(c);
    }
    if (c->is_doomed || (c->state == CONN_LINGER && c->is_eof)) {
        http_conn_kill(c, false);
    }
    release_orphan(c);
    c->is_running = false;
    if (c->state == CONN_DEAD) {
        http_conn_forget(c);
        return;
    }
    if (turns == TURNS) {
        http_conn_wake(c);
    }
    arm(c);
}
