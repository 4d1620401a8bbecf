/* SPDX-License-Identifier: Apache-2.0 */
/* Answers: whole, piece by piece, as events, and errors; see call.h. */
#include <string.h>

#include "api/call/call_impl.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "base/units.h"
#include "http/websocket.h"

#define JSON_TYPE "application/json"
#define PIECE_MAX ((size_t)128 << 10)
#define CLOSE_NORMAL 1000
#define CLOSE_FAILED 1011

/* ---- the start of every answer ---- */

static void tally(struct api_call *call, int status, uint64_t ns)
{
    struct api_tally *t = &call->api->tally[call->op];

    t->answers[status / 100 < 6 ? status / 100 : 0]++;
    histogram_add(&t->seconds, histogram_seconds, (double)ns / NS_PER_SEC);
}

static void add_usual_headers(struct api_call *call, int status, uint64_t ns)
{
    char time[32];

    (void)str_format(time, sizeof(time), "%llu.%06u", (unsigned long long)(ns / NS_PER_SEC),
                     (unsigned)(ns % NS_PER_SEC / 1000));
    http_add_header(call->req, "X-Request-ID", call->request_id);
    http_add_header(call->req, "X-Process-Time", time);
    if ((status == 429 || status == 502 || status == 503) && !call->no_retry) {
        http_add_header(call->req, "Retry-After", "1");
    }
}

/* The request to answer; NULL: the client is gone, or was answered. */
struct http_request *call_start_answer(struct api_call *call, int status)
{
    uint64_t ns = clock_ns() - call->start_ns;

    if (call->is_answered) {
        if (!call->is_answered_here) {
            log_error("api_second_answer", "operation=%s request_id=%s",
                      call->info != NULL ? call->info->id : "-", call->request_id);
        }
        return NULL;
    }
    call->is_answered = true;
    call->status = status;
    tally(call, status, ns);
    log_debug("api_answer", "operation=%s status=%d us=%llu request_id=%s",
              call->info != NULL ? call->info->id : "-", status, (unsigned long long)(ns / 1000),
              call->request_id);
    if (call->req == NULL) {
        return NULL;
    }
    add_usual_headers(call, status, ns);
    return call->req;
}

void call_add_header(struct api_call *call, const char *name, const char *value)
{
    if (call->req != NULL && !call->is_answered) {
        http_add_header(call->req, name, value);
    }
}

/* ---- whole answers ---- */

/* Too long for the shared buffer: written again, to memory of its own. */
static void reply_long_json(const struct api_call *call, int status, const json_t *value,
                            size_t need)
{
    struct http_request *req = call->req;
    char *text = malloc(need);

    size_t n = text != NULL ? api_json_write(value, text, need) : 0;
    if (n == 0 || n > need) {
        free(text);
        http_reply_error(req, 500, "the answer could not be written");
        return;
    }
    http_reply_owned(req, status, JSON_TYPE, text, n);
}

void call_reply_json(struct api_call *call, int status, json_t *value)
{
    struct api *api = call->api;

    struct http_request *req = call_start_answer(call, status);
    if (req != NULL) {
        size_t n = value != NULL ? api_json_write(value, api->text, api->text_size) : 0;
        if (n == 0) {
            log_error("api_answer_lost", "operation=%s request_id=%s",
                      call->info != NULL ? call->info->id : "-", call->request_id);
            http_reply_error(req, 500, "the answer could not be written");
        } else if (n > api->text_size) {
            reply_long_json(call, status, value, n);
        } else {
            http_reply(req, status, JSON_TYPE, api->text, n);
        }
    }
    json_decref(value);
}

void call_reply_text(struct api_call *call, int status, const char *type, const char *text,
                     size_t len)
{
    struct http_request *req = call_start_answer(call, status);

    if (req != NULL) {
        http_reply(req, status, type, text, len);
    }
}

void call_reply_static(struct api_call *call, int status, const char *type, const void *data,
                       size_t len)
{
    struct http_request *req = call_start_answer(call, status);

    if (req != NULL) {
        http_reply_static(req, status, type, data, len);
    }
}

void call_reply_empty(struct api_call *call, int status)
{
    struct http_request *req = call_start_answer(call, status);

    if (req != NULL) {
        http_reply(req, status, NULL, "", 0);
    }
}

/* ---- errors ---- */

void call_reply_api_error(struct api_call *call, const struct api_error *error)
{
    call_reply_json(call, error->status, api_error_json(call->dialect, error, call->request_id));
}

void call_reply_error(struct api_call *call, int status, const char *code, const char *description,
                      const char *detail, const char *solution)
{
    struct api_error error = {.status = api_error_status(call->dialect, status),
                              .code = code != NULL ? code : api_error_code(call->dialect, status),
                              .description = description,
                              .detail = detail,
                              .solution = solution};

    call_reply_api_error(call, &error);
}

/* The client gets a part of it, the operator's log all of it. */
void call_log_error(const struct api_call *call, const struct err *e, int status)
{
    if (status >= 500 || e->code == ERR_TEMPLATE) {
        char shown[sizeof(e->msg)];
        str_printable(shown, sizeof(shown), e->msg, strlen(e->msg));
        log_warn("api_error", "operation=%s request_id=%s type=%s message=\"%s\"",
                 call->info != NULL ? call->info->id : "-", call->request_id, err_type(e->code),
                 shown);
    }
}

void call_reply_err(struct api_call *call, const struct err *e)
{
    char detail[API_DETAIL_MAX];
    struct api_error error;

    api_error_from(e, call->dialect, detail, &error);
    call_log_error(call, e, error.status);
    call_reply_api_error(call, &error);
}

void call_reply_invalid(struct api_call *call, const struct api_violations *v)
{
    char detail[2048];

    if (api_is_fastapi(call->dialect)) {
        call_reply_json(call, 422, api_violations_json(v));
        return;
    }
    api_violations_text(v, detail, sizeof(detail));
    call_reply_error(call, 422, NULL, NULL, detail, "Correct the fields named in error_detail.");
}

void call_refuse(struct api_call *call, int status, const char *why)
{
    if (!call->is_answered) {
        call_reply_error(call, status, NULL, NULL, why, NULL);
        call->is_answered_here = true;
    }
}

/* ---- piece by piece ---- */

void call_begin(struct api_call *call, int status, const char *type, uint64_t length)
{
    struct http_request *req = call_start_answer(call, status);

    if (req != NULL) {
        http_begin(req, status, type, length);
        call->is_open = true;
    }
}

int call_wait_for_room(struct api_call *call)
{
    while (call->req != NULL && call->is_open && http_is_full(call->req)) {
        call_pause(call);
    }
    return call->req != NULL && call->is_open ? 0 : -1;
}

int call_write(struct api_call *call, const void *data, size_t len)
{
    const char *p = data;

    while (len > 0) {
        size_t n = MIN(len, PIECE_MAX);
        if (call_wait_for_room(call) < 0 || http_write(call->req, p, n) < 0) {
            return -1;
        }
        p += n;
        len -= n;
    }
    return call->req != NULL && call->is_open ? 0 : -1;
}

void call_end(struct api_call *call)
{
    if (call->req != NULL && call->is_open && call->is_websocket) {
        http_websocket_close(call->req, CLOSE_NORMAL, NULL);
    } else if (call->req != NULL && call->is_open) {
        http_end(call->req);
    }
    call->is_open = false;
}

void call_sse_begin(struct api_call *call)
{
    struct http_request *req = call_start_answer(call, 200);

    if (req != NULL) {
        http_sse_begin(req);
        call->is_open = true;
    }
}

int call_sse_event(struct api_call *call, const char *id, const char *name, const json_t *data)
{
    if (call_wait_for_room(call) < 0) {
        return -1;
    }
    size_t len = 0;
    AUTO_FREE char *text = api_json_text(data, &len);
    if (text == NULL) {
        return -1;
    }
    struct http_event event = {.id = id, .name = name, .data = text, .len = len};
    return http_sse_event(call->req, &event);
}

int call_event(struct api_call *call, const char *id, const char *name, json_t *data)
{
    return call->is_websocket ? call_websocket_event(call, id, name, data)
                              : call_sse_event(call, id, name, data);
}

/* ---- the end ---- */

void call_finish(struct api_call *call)
{
    if (!call->is_answered) {
        if (call->req != NULL) {
            log_error("api_no_answer", "operation=%s request_id=%s", call->info->id,
                      call->request_id);
        }
        call_reply_error(call, 500, NULL, NULL, "the server made no answer", NULL);
    }
    if (call->is_open && call->req != NULL) {
        /* Cut short: only closing can tell the client that the rest is missing. */
        log_warn("api_answer_cut", "operation=%s request_id=%s", call->info->id, call->request_id);
        if (call->is_websocket) {
            http_websocket_close(call->req, CLOSE_FAILED, "the rest is missing");
        } else {
            http_abort(call->req);
        }
    }
}
