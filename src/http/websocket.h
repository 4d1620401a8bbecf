/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WebSocket as an answer to a request. wslay does the framing; messages, fragments and queues are
 * bounded here. Pings, pongs and the closing handshake are automatic. No compression, no
 * extensions.
 */
#pragma once

#include "http/request.h"

struct http_websocket {
    /* A whole message. Text is valid UTF-8. data is borrowed during the call. */
    void (*on_message)(void *user, struct http_request *req, bool is_text, const char *data,
                       size_t len);
    /* The client has sent its close frame. Optional: on_done follows in any case. */
    void (*on_close)(void *user, struct http_request *req, unsigned code);
};

/*
 * True if the client wants a WebSocket: it asks for one, or sends a field that only such clients
 * send, although a proxy may have spoiled the rest of its handshake.
 */
bool http_websocket_is_asked(const struct http_request *req);
/*
 * 0 if http_websocket() will take the request; else the status to refuse with: 400, 426 or, when
 * the server stops, 503.
 */
int http_websocket_check(const struct http_request *req);
/* Adds the fields that an answer 426 must have: the protocol and its version. */
void http_websocket_offer(struct http_request *req);

/*
 * Answers with 101 and switches over, choosing protocol (one that the client offered, or NULL). A
 * request that is no valid handshake is answered with 400 or 426. on_done of the request comes at
 * the end. Returns 0 when switched, -1 when refused.
 */
int http_websocket(struct http_request *req, const struct http_websocket *callbacks,
                   const char *protocol);

/*
 * As http_write(): 0, or -1 when the connection is closing or gone. http_is_full() and
 * http_on_drain() work.
 */
int http_websocket_send(struct http_request *req, bool is_text, const void *data, size_t len);
void http_websocket_close(struct http_request *req, unsigned code, const char *reason);
