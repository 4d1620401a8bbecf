/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handlers of /api/v1 that report an execution while it runs and after it ended: as server-sent
 * events, or as messages of a WebSocket. Which of both is known only to call_event(), so they tell
 * the same.
 *
 * The id of an event is the position behind it, OUT.ERR.OUTPUTS.STAGE, so a reader that lost its
 * connection goes on exactly there, whether the execution still runs or not: both kinds of source
 * are put into the same sender below.
 *
 * Sending may wait for a slow client, and what the service lends is valid only until then.
 * Therefore everything is copied into the sender before the first event of it leaves.
 */
#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "api/v1/execute.h"
#include "api/v1/position.h"
#include "api/v1/shape.h"
#include "base/buf.h"
#include "base/str.h"
#include "core/result_parts.h"
#include "service/result.h"

#define PIECE ((size_t)256 << 10)     /* bytes of output in one event */
#define BACKLOG_MAX ((size_t)2 << 30) /* the configuration bounds what is kept, by far less */
#define LOOK_AGAIN_MS 1000            /* whether the client is still there */

struct sender {
    struct api_call *call;
    const struct execution_entry *it;
    struct v1_position at; /* behind the last event that was sent */
    struct buf out;        /* what comes next */
    struct buf err;
    json_t *outputs;
};

static void sender_release(struct sender *s)
{
    buf_release(&s->out);
    buf_release(&s->err);
    json_decref(s->outputs);
}

/* ---- events ---- */

/* Sends one event and takes the data. -1: the client is gone. */
static int send_event(struct sender *s, const char *name, json_t *data)
{
    char id[V1_POSITION_MAX];

    v1_position_format(&s->at, id);
    int r = data != NULL ? call_event(s->call, id, name, data) : -1;
    json_decref(data);
    return r;
}

static int send_status(struct sender *s, enum v1_stage stage, int state)
{
    if (s->at.stage >= stage) {
        return 0;
    }
    const struct execution_view r = execution_view(s->it);
    s->at.stage = stage;
    return send_event(s, "status",
                      json_pack("{s:s, s:s, s:s}", "execution_id", r.id, "session_id", r.session_id,
                                "status", execution_state_word(state)));
}

/* A reader from the beginning gets the execution's id before output. */
static int send_beginning(struct sender *s, int state)
{
    bool has_run = state == EXECUTION_RUNNING || execution_view(s->it).started_ms > 0;

    if (execution_state_is_final(state) && s->at.stage != V1_STAGE_NONE) {
        return 0; /* it knows, and running is no longer true */
    }
    return has_run ? send_status(s, V1_STAGE_RUNNING, EXECUTION_RUNNING)
                   : send_status(s, V1_STAGE_PENDING, EXECUTION_PENDING);
}

static json_t *bytes_json(const char *data, size_t n)
{
    json_t *text = json_stringn(data, n); /* NULL unless UTF-8 */

    return text != NULL ? json_pack("{s:o}", "text", text)
                        : json_pack("{s:o}", "base64", result_base64(data, n));
}

/* How many bytes at the end are the beginning of a character whose rest may follow. */
static size_t unfinished(const char *data, size_t n)
{
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        unsigned char c = (unsigned char)data[n - back];
        size_t whole = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc2 ? 2 : 1;
        if (c >= 0xc2 && c <= 0xf4) {
            return whole > back ? back : 0;
        }
        if (c < 0x80) {
            return 0;
        }
    }
    return 0;
}

/*
 * Sends what the buffer holds; half a character stays until the rest is there, or nothing more
 * comes.
 */
static int send_bytes(struct sender *s, const char *name, struct buf *b, uint64_t *at, bool is_all)
{
    while (b->len > 0) {
        size_t n = MIN(b->len, PIECE);
        size_t half = is_all && n == b->len ? 0 : unfinished(b->data, n);
        if (n == half) {
            return 0;
        }
        n -= half;
        *at += n;
        if (send_event(s, name, bytes_json(b->data, n)) < 0) {
            return -1;
        }
        buf_consume(b, n);
    }
    return 0;
}

static int send_outputs(struct sender *s)
{
    json_t *output;
    size_t i;

    json_array_foreach(s->outputs, i, output)
    {
        s->at.outputs++;
        if (send_event(s, "output", json_incref(output)) < 0) {
            return -1;
        }
    }
    json_array_clear(s->outputs);
    return 0;
}

/* Everything that was collected, with what it means for the state before or after it. */
static int send_collected(struct sender *s, int state)
{
    bool is_over = execution_state_is_final(state);

    if (send_beginning(s, state) < 0 || send_bytes(s, "stdout", &s->out, &s->at.out, is_over) < 0 ||
        send_bytes(s, "stderr", &s->err, &s->at.err, is_over) < 0) {
        return -1;
    }
    return send_outputs(s);
}

/* The execution is over and all its output was sent. */
static void send_end(struct sender *s)
{
    if (send_status(s, V1_STAGE_ENDED, execution_view(s->it).state) < 0) {
        return;
    }
    if (s->at.stage < V1_STAGE_RESULT) {
        s->at.stage = V1_STAGE_RESULT;
        json_t *result = v1_execution_json(s->it);
        json_object_del(result, "outputs"); /* they were events of their own, and may be large */
        if (send_event(s, "result", result) < 0) {
            return;
        }
    }
    if (send_event(s, "end", json_object()) == 0) {
        call_end(s->call);
    }
}

/* ---- a running execution ---- */

static int collect(struct sender *s, const struct execution_news *news)
{
    if (buf_add(&s->out, news->out, news->out_len) < 0 ||
        buf_add(&s->err, news->err, news->err_len) < 0) {
        return -1;
    }
    for (size_t i = 0; i < news->n_displays; i++) {
        if (json_array_append_new(s->outputs, result_display_json(&news->displays[i])) < 0) {
            return -1;
        }
    }
    return 0;
}

static int seen_state(const struct sender *s)
{
    switch (s->at.stage) {
    case V1_STAGE_NONE:
        return -1;
    case V1_STAGE_PENDING:
        return EXECUTION_PENDING;
    case V1_STAGE_RUNNING:
        return EXECUTION_RUNNING;
    default:
        return (int)execution_view(s->it).state;
    }
}

static void follow(struct sender *s)
{
    struct execution_position at = {s->at.out, s->at.err, (uint32_t)s->at.outputs, seen_state(s)};

    while (!call_is_gone(s->call)) {
        struct execution_news news = {0};
        if (execution_news(s->it->live, &at, &news)) {
            if (collect(s, &news) < 0 || send_collected(s, news.state) < 0) {
                return;
            }
        } else if (execution_state_is_final(at.state)) {
            send_end(s);
            return;
        } else {
            (void)execution_wait_news(s->it->live, &at, LOOK_AGAIN_MS);
        }
    }
}

/* ---- one that is over ---- */

/*
 * The bytes of a stream: a record keeps what is not UTF-8 in base64 as well. Owned by the caller,
 * or NULL.
 */
static char *stored_bytes(const json_t *result, const char *name, size_t *ret_len)
{
    char exact_name[32];

    (void)str_format(exact_name, sizeof(exact_name), "%s_base64", name);
    const json_t *exact = json_object_get(result, exact_name);
    const json_t *text = exact != NULL ? exact : json_object_get(result, name);
    size_t n = json_string_length(text);
    char *bytes = malloc(n + 1);
    if (bytes == NULL || n == 0) {
        *ret_len = 0;
        return bytes;
    }
    if (exact == NULL) {
        memcpy(bytes, json_string_value(text), n);
        *ret_len = n;
        return bytes;
    }
    const char *digits = json_string_value(exact);
    size_t padding = (size_t)(digits[n - 1] == '=') + (size_t)(n > 1 && digits[n - 2] == '=');
    int len = EVP_DecodeBlock((unsigned char *)bytes, (const unsigned char *)digits, (int)n);
    *ret_len = len > 0 ? (size_t)len - padding : 0;
    return bytes;
}

static int add_stored(struct buf *b, const json_t *result, const char *name, uint64_t skip)
{
    size_t n = 0;
    AUTO_FREE char *bytes = stored_bytes(result, name, &n);

    if (bytes == NULL) {
        return -ENOMEM;
    }
    return skip < n ? buf_add(b, bytes + skip, n - skip) : 0;
}

static void replay(struct sender *s)
{
    const int state = (int)execution_view(s->it).state;
    json_t *result = execution_outcome(s->it);
    const json_t *outputs = json_object_get(result, "outputs");
    int r = add_stored(&s->out, result, "stdout", s->at.out);

    if (r == 0) {
        r = add_stored(&s->err, result, "stderr", s->at.err);
    }
    for (size_t i = s->at.outputs; i < json_array_size(outputs); i++) {
        json_array_append(s->outputs, json_array_get(outputs, i));
    }
    json_decref(result);
    if (r < 0 || send_collected(s, state) < 0) {
        return;
    }
    if (execution_state_is_final(state)) {
        send_end(s);
    } else {
        call_end(s->call); /* nothing runs it now; the reader may come back */
    }
}

/* ---- handlers ---- */

/* The answer has begun. */
static void stream(struct api_call *call, const struct execution_entry *it,
                   const struct v1_position *from)
{
    AUTO(sender_release)
    struct sender s = {
        .call = call,
        .it = it,
        .at = *from,
        .out = BUF_INIT(BACKLOG_MAX),
        .err = BUF_INIT(BACKLOG_MAX),
        .outputs = json_array(),
    };

    if (call_is_head(call)) {
        call_end(call);
    } else if (it->live != NULL && !execution_state_is_final((int)execution_view(it).state)) {
        follow(&s);
    } else {
        replay(&s);
    }
}

void api_v1_execute_stream(struct api_call *call)
{
    static const struct v1_position start;
    AUTO_EXECUTION struct execution_entry it = {0};

    if (v1_execute_start(call, &it) == 0) {
        call_sse_begin(call);
        stream(call, &it, &start);
    }
}

/* Where the reader wants to begin. 0, or -1: answered. */
static int read_position(struct api_call *call, struct v1_position *ret)
{
    static const struct {
        const char *in;
        const char *name;
        const char *complaint;
    } rows[] = {
        {"header", "last-event-id", "last-event-id must be the id of an event"},
        {"query", "last_event_id", "last_event_id must be the id of an event"},
        {"query", "offset", "offset must be a number or the id of an event"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *text = call_text(call, rows[i].name);
        if (text != NULL && v1_position_parse(text, ret) < 0) {
            v1_reply_field(call, rows[i].in, rows[i].name, rows[i].complaint);
            return -1;
        }
        if (text != NULL) {
            return 0;
        }
    }
    return 0;
}

void api_v1_execution_events(struct api_call *call)
{
    AUTO_EXECUTION struct execution_entry it = {0};
    struct v1_position from = {0};
    struct err e = {0};

    if (read_position(call, &from) < 0) {
        return;
    }
    if (execution_open(call_service(call), call_text(call, "execution_id"), &it, &e) < 0) {
        v1_reply_err(call, &e, V1_EXECUTION);
        return;
    }
    if (!call_wants_websocket(call)) {
        call_sse_begin(call);
    } else if (call_websocket_begin(call) < 0) {
        return;
    }
    stream(call, &it, &from);
}
