/* SPDX-License-Identifier: Apache-2.0 */
/* Creation, input and end of a connection; see conn.h. The work in between is in conn_run.c. */
#include "http/conn.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"

/* ---- phases ---- */

static const bool can_enter[CONN_PHASES][CONN_PHASES] = {
    [CONN_HEAD] = {[CONN_REQUEST] = true, [CONN_CLOSING] = true, [CONN_DOOMED] = true},
    [CONN_REQUEST] = {[CONN_HEAD] = true, [CONN_CLOSING] = true, [CONN_DOOMED] = true},
    [CONN_CLOSING] = {[CONN_LINGER] = true, [CONN_DOOMED] = true},
    [CONN_LINGER] = {[CONN_DOOMED] = true},
    [CONN_DOOMED] = {[CONN_ORPHAN] = true, [CONN_DEAD] = true},
    [CONN_ORPHAN] = {[CONN_DEAD] = true},
};

void http_conn_enter(struct http_conn *c, enum conn_phase phase)
{
    assert(can_enter[c->phase][phase]);
    c->phase = phase;
    c->since = uv_now(c->server->loop);
}

bool http_conn_is_gone(const struct http_conn *c)
{
    return c->phase >= CONN_ORPHAN;
}

bool http_conn_is_lost(const struct http_conn *c)
{
    return c->phase >= CONN_DOOMED;
}

void http_conn_end_after(struct http_conn *c, enum conn_after after)
{
    c->after = MAX(c->after, after);
}

/* ---- birth and death ---- */

struct http_conn *http_conn_new(struct http_server *s, int fd, const struct http_peer *peer)
{
    struct http_conn *c = calloc(1, sizeof(*c));

    if (c == NULL) {
        return NULL;
    }
    c->server = s;
    c->fd = fd;
    c->peer = *peer;
    c->since = uv_now(s->loop);
    c->req.conn = c;
    c->req.fields.max = REPLY_FIELDS_MAX;
    if (uv_poll_init(s->loop, &c->poll, fd) != 0) {
        free(c);
        return NULL;
    }
    c->poll.data = c;
    c->next = s->conns;
    if (c->next != NULL) {
        c->next->prev = c;
    }
    s->conns = c;
    s->memories++;
    s->stats.open++;
    http_server_tick_on(s);
    http_conn_wake(c);
    return c;
}

void http_conn_wake(struct http_conn *c)
{
    if (c->turn != TURN_NONE) {
        return;
    }
    c->turn = TURN_AWAKE;
    c->next_awake = c->server->awake;
    c->server->awake = c;
    http_server_wake(c->server);
}

void http_conn_doom(struct http_conn *c)
{
    if (!http_conn_is_lost(c)) {
        http_conn_enter(c, CONN_DOOMED);
    }
    http_conn_wake(c);
}

void http_conn_forget(struct http_conn *c)
{
    struct http_server *s = c->server;

    if (c->phase != CONN_DEAD || !c->is_poll_closed || c->turn != TURN_NONE) {
        return;
    }
    http_block_give(c);
    buf_release(&c->req.fields);
    free(c);
    s->memories--;
    http_server_forget(s);
}

static void on_poll_closed(uv_handle_t *handle)
{
    struct http_conn *c = handle->data;

    c->is_poll_closed = true;
    http_conn_forget(c);
}

static void unlink_conn(struct http_conn *c)
{
    struct http_server *s = c->server;

    if (c->prev != NULL) {
        c->prev->next = c->next;
    } else {
        s->conns = c->next;
    }
    if (c->next != NULL) {
        c->next->prev = c->prev;
    }
    http_admit_forget(c);
    s->over_limit -= c->is_over_limit ? 1 : 0;
    s->stats.open--;
    if (s->phase == SERVER_DRAINING && s->stats.open == 0) {
        http_server_wake(s);
    }
}

/*
 * A handler without on_done may still answer later, so the memory must stay until it does. A
 * handler that waits for the body is never called again and needs nothing.
 */
static bool is_answer_due(const struct http_request *req)
{
    bool waits_for_body = req->body_mode == BODY_COLLECT || req->body_mode == BODY_STREAM;

    return (req->reply == REPLY_DUE || req->reply == REPLY_OPEN) && req->on_done == NULL &&
           req->websocket == NULL && !(waits_for_body && req->body_progress != BODY_TOLD);
}

void http_conn_kill(struct http_conn *c, bool is_final)
{
    bool is_orphan = !is_final && is_answer_due(&c->req);

    if (c->phase != CONN_DOOMED) {
        http_conn_enter(c, CONN_DOOMED);
    }
    http_conn_enter(c, is_orphan ? CONN_ORPHAN : CONN_DEAD);
    uv_close((uv_handle_t *)&c->poll, on_poll_closed);
    fd_close(&c->fd);
    http_out_release(&c->out, &c->server->pool);
    unlink_conn(c);
    if (!is_orphan && c->req.reply != REPLY_IDLE) {
        http_request_end(c, HTTP_GONE);
    }
}

/* ---- input ---- */

bool http_conn_wants_input(const struct http_conn *c)
{
    size_t high = c->server->config.limits.queue_high;

    if (c->input == INPUT_ENDED) {
        return false;
    }
    if (c->phase == CONN_REQUEST) {
        return c->req.websocket != NULL ? http_websocket_wants_input(&c->req)
                                        : http_body_wants_input(&c->req);
    }
    return c->phase == CONN_LINGER || (c->phase == CONN_HEAD && c->out.queued <= high);
}

/* Reads once; the poll fires again if there is more. */
static void read_input(struct http_conn *c)
{
    if (c->block == NULL) {
        c->block = http_block_take(c->server);
        if (c->block == NULL) {
            http_conn_doom(c);
            return;
        }
    }
    struct block *b = c->block;
    if (c->phase == CONN_LINGER) {
        b->start = b->end;
    }
    if (!http_block_make_room(b, c->phase == CONN_HEAD)) {
        return;
    }
    bool is_first = c->phase == CONN_HEAD && b->start == b->end;
    ssize_t n = recv(c->fd, b->data + b->end, BLOCK_BYTES - b->end, MSG_DONTWAIT);
    if (n > 0) {
        b->end += (size_t)n;
        c->window_bytes += (uint64_t)n;
        if (is_first) {
            c->since = uv_now(c->server->loop);
        }
    } else if (n == 0) {
        c->input = INPUT_ENDED;
    } else if (errno != EAGAIN && errno != EINTR) {
        http_conn_doom(c);
    }
}

void http_conn_on_poll(uv_poll_t *poll, int status, int events)
{
    struct http_conn *c = poll->data;

    if (status < 0 || (events & UV_PRIORITIZED) != 0) {
        http_conn_doom(c);
    }
    if ((events & UV_DISCONNECT) != 0) {
        c->has_hung_up = true;
    }
    if ((events & UV_READABLE) != 0) {
        if (http_conn_wants_input(c)) {
            read_input(c);
        } else if (c->input == INPUT_ON) {
            c->input = INPUT_OFF;
        }
    }
    if (c->turn == TURN_NONE) { /* else it is on the list and runs in a moment */
        http_conn_run(c);
    }
}
