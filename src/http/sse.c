/* SPDX-License-Identifier: Apache-2.0 */
/* Server-sent events on top of streamed answers; see request.h. */
#include <string.h>

#include "http/conn.h"

#define EVENT_MAX (64U << 20) /* bytes of one event as sent */

void http_sse_begin(struct http_request *req)
{
    http_add_header(req, "Cache-Control", "no-store");
    http_add_header(req, "X-Accel-Buffering", "no"); /* nginx would hold events back */
    http_begin(req, 200, "text/event-stream", HTTP_LENGTH_UNKNOWN);
    req->is_sse = req->reply == REPLY_OPEN;
}

static bool is_one_line(const char *text)
{
    return text == NULL || text[strcspn(text, "\r\n")] == '\0';
}

/* Every kind of line end that the client would see must start a new "data" line. */
static int add_data(struct buf *b, const char *data, size_t len)
{
    const char *end = data + len;
    int r = 0;

    for (const char *p = data; r == 0;) {
        const char *stop = p;
        while (stop < end && *stop != '\n' && *stop != '\r') {
            stop++;
        }
        r = buf_add_str(b, "data: ");
        if (r == 0) {
            r = buf_add(b, p, (size_t)(stop - p));
        }
        if (r == 0) {
            r = buf_add(b, "\n", 1);
        }
        if (stop == end) {
            break;
        }
        p = stop + (stop + 1 < end && stop[0] == '\r' && stop[1] == '\n' ? 2 : 1);
    }
    return r;
}

int http_sse_text(struct buf *b, const struct http_event *event)
{
    if (!is_one_line(event->id) || !is_one_line(event->name)) {
        return -1;
    }
    bool ok = (event->id == NULL || buf_printf(b, "id: %s\n", event->id) == 0) &&
              (event->name == NULL || buf_printf(b, "event: %s\n", event->name) == 0) &&
              add_data(b, event->data, event->len) == 0 && buf_add(b, "\n", 1) == 0;
    return ok ? 0 : -1;
}

int http_sse_event(struct http_request *req, const struct http_event *event)
{
    AUTO_BUF struct buf b = BUF_INIT(EVENT_MAX);

    return http_sse_text(&b, event) < 0 ? -1 : http_write(req, b.data, b.len);
}

void http_sse_heartbeat(struct http_request *req)
{
    http_write(req, ":\n\n", 3);
}

/* The server stops: ends the stream properly, so that the client reconnects with Last-Event-ID. */
void http_sse_goodbye(struct http_request *req)
{
    if (req->reply == REPLY_OPEN) {
        http_write(req, ": server stops\n\n", 16);
        http_reply_finish(req, REPLY_REFUSED);
        http_conn_end_after(req->conn, AFTER_CLOSE);
    }
}
