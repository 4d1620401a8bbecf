/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An agent's answer as server-sent events. It is an answer like any other and not a feed: when the
 * server stops it may still finish, so it is not one of those that http_sse_begin() opens.
 */
#include <string.h>

#include "api/agents/gateway.h"

/* Without a frame for so long the head is sent, so that no proxy in between gives up. */
#define FIRST_MS 2000
#define HEARTBEAT_MS 15000 /* as on other streams of events */
#define EVENT_MAX (4 * AGENT_PAYLOAD_MAX)

struct stream {
    struct api_call *call;
    uint32_t mode; /* enum agent_streams */
    bool has_begun;
};

static void begin(struct stream *s)
{
    if (!s->has_begun) {
        s->has_begun = true;
        call_add_header(s->call, "Cache-Control", "no-store");
        call_add_header(s->call, "X-Accel-Buffering", "no"); /* nginx would hold events back */
        call_begin(s->call, 200, "text/event-stream", HTTP_LENGTH_UNKNOWN);
    }
}

/* One event; -1: the client is gone. */
static int say(struct stream *s, const char *data, size_t len)
{
    AUTO_BUF struct buf b = BUF_INIT(EVENT_MAX);
    struct http_event event = {.data = data, .len = len};

    begin(s);
    return http_sse_text(&b, &event) < 0 ? -1 : call_write(s->call, b.data, b.len);
}

static void say_done(struct stream *s)
{
    static const char done[] = "{\"type\": \"done\"}";

    if (say(s, done, sizeof(done) - 1) == 0) {
        call_end(s->call);
    }
}

static void say_error(struct stream *s, const char *why)
{
    json_t *event =
        json_pack("{s:s, s:o}", "type", "error", "content", api_text_json(why, strlen(why)));
    AUTO_FREE char *text = event != NULL ? json_dumps(event, 0) : NULL;

    json_decref(event);
    if (text != NULL && say(s, text, strlen(text)) == 0) {
        call_end(s->call);
    }
}

static void fail(struct stream *s, const struct err *e)
{
    if (s->has_begun) {
        say_error(s, e->msg);
    } else {
        agents_reply_err(s->call, e);
    }
}

/* The agent's own exceptions are events, as in the original; requests that it refuses are not. */
static void take_error(struct stream *s, const struct agent_answer *answer)
{
    char text[AGENTS_ERROR_MAX];

    if (s->has_begun || agents_error_status(answer) == 500) {
        agents_error_text(answer, text);
        say_error(s, text);
    } else {
        agents_reply_error(s->call, answer);
    }
}

/* False: that was the last one. */
static bool take(struct stream *s, const struct agent_answer *answer)
{
    const json_t *content = json_object_get(answer->value, "content");

    if (answer->type == AGENT_DONE) {
        say_done(s);
        return false;
    }
    if (answer->type == AGENT_TEXT && s->mode == AGENT_STREAM_TEXT) {
        return say(s, json_string_value(content), json_string_length(content)) == 0;
    }
    if (answer->type == AGENT_EVENT && s->mode == AGENT_STREAM_EVENTS) {
        return say(s, answer->data, answer->len) == 0;
    }
    if (answer->type == AGENT_ERROR) {
        take_error(s, answer);
    } else {
        fail(s, &agents_bad_answer);
    }
    return false;
}

void agents_stream(struct api_call *call, struct agent_call *asked, uint32_t mode)
{
    struct stream s = {.call = call, .mode = mode};
    struct err e;
    bool goes_on = true;

    while (goes_on) {
        struct agent_answer *answer = NULL;
        switch (agent_call_next(asked, s.has_begun ? HEARTBEAT_MS : FIRST_MS, &answer, &e)) {
        case AGENT_STEP_ANSWER:
            goes_on = take(&s, answer);
            break;
        case AGENT_STEP_QUIET:
            begin(&s);
            goes_on = call_write(call, ":\n\n", 3) == 0;
            break;
        case AGENT_STEP_FAILED:
            fail(&s, &e);
            goes_on = false;
            break;
        case AGENT_STEP_GONE:
            begin(&s); /* the connection is dropped when the handler returns */
            goes_on = false;
            break;
        }
        agent_answer_free(answer);
    }
}
