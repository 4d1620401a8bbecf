/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time limits: one coarse tick walks all connections. That is cheaper than a timer per connection,
 * which would be moved by every request; limits are therefore up to one tick late.
 */
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include "http/conn.h"

static void expire(struct http_conn *c)
{
    c->server->stats.timeouts++;
    http_conn_doom(c);
}

static void check_head(struct http_conn *c, uint64_t age)
{
    const struct http_limits *limits = &c->server->config.limits;
    bool has_bytes = c->block != NULL && c->block->start < c->block->end;

    if (has_bytes) {
        if (age > limits->head_ms) {
            c->server->stats.timeouts++;
            http_conn_refuse(c, 408, "the head of the request did not come in time");
        }
        return;
    }
    uint64_t most = c->has_served ? limits->idle_ms : limits->head_ms;
    if (c->server->phase == SERVER_DRAINING) {
        most = limits->linger_ms;
    }
    if (age > most) {
        expire(c);
    }
}

/* A body must bring its share in each window, unless the server itself is not reading. */
static void check_body(struct http_conn *c, uint64_t now)
{
    const struct http_limits *limits = &c->server->config.limits;

    if (!http_body_wants_input(&c->req)) {
        c->window_start = now;
        c->window_bytes = 0;
        return;
    }
    if (now - c->window_start < limits->body_window_ms) {
        return;
    }
    uint64_t share = (uint64_t)limits->body_window_ms * limits->body_bytes_per_s / 1000;
    if (c->window_bytes < share) {
        c->server->stats.timeouts++;
        http_request_refuse(&c->req, 408, "the body of the request comes too slowly");
    }
    c->window_start = now;
    c->window_bytes = 0;
}

static void check_stream(struct http_conn *c, uint64_t now)
{
    struct http_request *req = &c->req;

    if (req->websocket != NULL) {
        http_websocket_tick(req, now);
    } else if (req->is_sse && c->out.first == NULL &&
               now - c->wrote_at >= c->server->config.limits.heartbeat_ms) {
        http_sse_heartbeat(req);
    }
}

/*
 * The kernel accepts more only when a good part of its own buffer, of megabytes, is free. A client
 * that reads slowly shows earlier in the number of bytes left there.
 */
static void look_at_reader(struct http_conn *c, uint64_t now)
{
    int unread = 0;

    if (ioctl(c->fd, SIOCOUTQ, &unread) < 0) {
        return;
    }
    if (unread < c->unread) {
        c->wrote_at = now;
    }
    c->unread = unread;
}

/*
 * As check_body(): an answer that waits for its client must be taken at the same rate. Events and
 * WebSockets last as long as their client likes.
 */
static bool is_too_slow(struct http_conn *c, uint64_t now)
{
    const struct http_limits *limits = &c->server->config.limits;
    uint64_t taken = c->sent - (uint64_t)MIN((uint64_t)MAX(c->unread, 0), c->sent);

    if (c->out.first == NULL || c->req.is_sse || c->req.websocket != NULL) {
        c->taken_at = 0;
        return false;
    }
    if (c->taken_at == 0) {
        c->taken_at = now;
        c->taken = taken;
    }
    if (now - c->taken_at < limits->write_ms) { /* the kernel reports it in large steps */
        return false;
    }
    uint64_t share = (uint64_t)limits->write_ms * limits->body_bytes_per_s / 1000;
    bool is_slow = taken - c->taken < share;
    c->taken_at = now;
    c->taken = taken;
    return is_slow;
}

static void check(struct http_conn *c, uint64_t now)
{
    const struct http_limits *limits = &c->server->config.limits;

    if (c->out.first != NULL) {
        look_at_reader(c, now);
        if (now - c->wrote_at > limits->write_ms) {
            expire(c);
            return;
        }
    }
    if (is_too_slow(c, now)) {
        expire(c);
        return;
    }
    switch (c->phase) {
    case CONN_HEAD:
        check_head(c, now - c->since);
        break;
    case CONN_REQUEST:
        check_body(c, now);
        check_stream(c, now);
        break;
    case CONN_LINGER:
        if (now - c->since > limits->linger_ms) {
            http_conn_doom(c);
        }
        break;
    case CONN_CLOSING: /* only waits for its output, see above */
    case CONN_DOOMED:
    case CONN_ORPHAN:
    case CONN_DEAD:
        break;
    }
}

void http_timeouts_check(struct http_server *s)
{
    uint64_t now = uv_now(s->loop);
    bool is_over = s->phase == SERVER_DRAINING && now >= s->drain_deadline;

    for (struct http_conn *c = s->conns; c != NULL; c = c->next) {
        if (is_over) {
            http_conn_doom(c);
        } else {
            check(c, now);
        }
    }
    if (s->accept_again != 0 && now >= s->accept_again) {
        http_listeners_resume(s);
    }
}
