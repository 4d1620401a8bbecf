/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events as messages of a WebSocket; see call.h. The same back-pressure as for every other answer:
 * the sender waits while the client is slow. The client has nothing to say but close, ping and
 * pong.
 */
#include <stdlib.h>
#include <string.h>

#include "api/call/call_impl.h"
#include "base/attr.h"
#include "http/websocket.h"

#define CLOSE_UNSUPPORTED 1003

static void on_message(void *user, struct http_request *req, bool is_text, const char *data,
                       size_t len)
{
    http_websocket_close(req, CLOSE_UNSUPPORTED, "messages are not taken here");
    call_lose(user);
}

static void on_close(void *user, struct http_request *req, unsigned code)
{
    call_lose(user);
}

bool call_wants_websocket(const struct api_call *call)
{
    return call->req != NULL && http_websocket_is_asked(call->req);
}

static void refuse(struct api_call *call, int status)
{
    if (status == 426) {
        http_websocket_offer(call->req);
    }
    call_reply_error(call, status, NULL, NULL,
                     status == 503
                         ? "the server is about to stop"
                         : "this is no WebSocket handshake: that is a GET of HTTP/1.1 with "
                           "Connection: Upgrade, Upgrade: websocket, "
                           "Sec-WebSocket-Version: 13 and a Sec-WebSocket-Key of 16 bytes",
                     NULL);
}

int call_websocket_begin(struct api_call *call)
{
    static const struct http_websocket calls = {.on_message = on_message, .on_close = on_close};
    int status = call->req != NULL ? http_websocket_check(call->req) : 0;

    if (status != 0) {
        refuse(call, status);
        return -1;
    }
    struct http_request *req = call_start_answer(call, 101);
    if (req == NULL || http_websocket(req, &calls, NULL) < 0) {
        return -1;
    }
    call->is_websocket = true;
    call->is_open = true;
    return 0;
}

int call_websocket_event(struct api_call *call, const char *id, const char *name, json_t *data)
{
    if (call_wait_for_room(call) < 0) {
        return -1;
    }
    json_t *message = json_pack("{s:s, s:s, s:O}", "event", name, "id", id, "data", data);
    size_t len = 0;
    AUTO_FREE char *text = message != NULL ? api_json_text(message, &len) : NULL;
    json_decref(message);
    return text != NULL ? http_websocket_send(call->req, true, text, len) : -1;
}
