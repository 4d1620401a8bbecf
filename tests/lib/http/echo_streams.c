/* SPDX-License-Identifier: Apache-2.0 */
/* Routes of the test server that answer piece by piece; see echo.h. */
#include "echo.h"

#include <inttypes.h>
#include <string.h>

#include "base/str.h"

/* Writes until the queue is full or all is written. */
static void pump(void *user, struct http_request *req)
{
    static const char filling[65536] = {0};
    struct job *job = user;

    while (job->left > 0 && !http_is_full(req)) {
        size_t n = (size_t)MIN(job->left, (uint64_t)MIN(job->piece, sizeof(filling)));
        if (http_write(req, filling, n) < 0) {
            return;
        }
        job->left -= n;
    }
    if (job->left == 0) {
        http_end(req);
    }
}

/* n bytes in pieces, with back-pressure; sized=1 says the length before. */
void stream_bytes(struct http_request *req)
{
    struct job *job = job_new(req);

    job->left = query_number(req, "n", 1000);
    job->piece = query_number(req, "piece", 1000);
    http_on_drain(req, pump);
    http_begin(req, 200, "application/octet-stream",
               query_number(req, "sized", 0) != 0 ? job->left : HTTP_LENGTH_UNKNOWN);
    pump(job, req);
}

static void flood(struct job *job)
{
    static const char filling[65536] = {0};

    for (int i = 0; i < 64; i++) {
        if (http_write(job->req, filling, sizeof(filling)) < 0) {
            return;
        }
    }
    job_after(job, 1, flood);
}

/* Knows no back-pressure: the server has to end it. */
void stream_flood(struct http_request *req)
{
    struct job *job = job_new(req);

    http_begin(req, 200, "application/octet-stream", HTTP_LENGTH_UNKNOWN);
    flood(job);
}

/* Promises more than it keeps. */
void stream_short(struct http_request *req)
{
    job_new(req);
    http_begin(req, 200, "text/plain", 100);
    http_write(req, "short", 5);
    http_end(req);
}

/* ---- server-sent events ---- */

/* n events, then open until /publish?end=1 or the end of the client. */
void stream_events(struct http_request *req)
{
    uint64_t n = query_number(req, "n", 0);

    job_new(req);
    http_sse_begin(req);
    for (uint64_t i = 1; i <= n; i++) {
        char id[24];
        str_format(id, sizeof(id), "%" PRIu64, i);
        struct http_event event = {
            .id = id, .name = "tick", .data = "line one\nline two", .len = 17};
        http_sse_event(req, &event);
    }
    if (query_number(req, "keep", 0) == 0) {
        http_end(req);
    } else {
        echo.events[0] = req;
    }
}

void stream_publish(struct http_request *req)
{
    const char *data = query(req, "data");
    struct http_event event = {.id = query(req, "id"), .name = query(req, "event"), .data = data};
    int r = 0;

    if (data != NULL) {
        event.len = strlen(data);
        r = http_sse_event(echo.events[0], &event);
    }
    if (query_number(req, "end", 0) != 0) {
        http_end(echo.events[0]);
    }
    reply_text(req, 200, "%d\n", r);
}

/* ---- WebSocket ---- */

/* Echoes; "close" closes with 4000, "flood N" sends N messages of 64 KB. */
static void on_message(void *user, struct http_request *req, bool is_text, const char *data,
                       size_t len)
{
    (void)user;
    if (is_text && len == 5 && memcmp(data, "close", 5) == 0) {
        http_websocket_close(req, 4000, "as you wished");
        return;
    }
    http_websocket_send(req, is_text, data, len);
}

void stream_websocket(struct http_request *req)
{
    static const struct http_websocket calls = {.on_message = on_message};

    job_new(req);
    http_websocket(req, &calls, http_header(req, "sec-websocket-protocol") != NULL ? "echo" : NULL);
}
