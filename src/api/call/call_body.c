/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies before the handler starts: which types are accepted, how much, and from JSON text to a
 * checked value; see call.h.
 *
 * A type is asked for because web pages can send text/plain and forms to any server without
 * asking, but not JSON.
 */
#include <stdio.h>
#include <string.h>

#include "api/call/call_impl.h"
#include "base/attr.h"
#include "base/str.h"
#include "config/config.h"

/* Last: its MIN and MAX clash with those of base/attr.h unless they come after. */
#include <uv.h>

#define PARSE_AT_ONCE ((size_t)64 << 10) /* more would delay other clients for too long */

/* ---- help ---- */

/* The first request of many is one to /run by curl, which sends a form unless it is told. */
const char *call_with_example(const struct api_call *call, const char *why,
                              char dst[static CALL_EXAMPLE_MAX])
{
    const char *host = http_header(call->req, "host");

    if (call->dialect != API_RUN || !str_eq(http_path(call->req), "/run")) {
        return why;
    }
    (void)str_format(dst, CALL_EXAMPLE_MAX,
                     "%.80s. Try: curl http://%.60s/run -H 'Content-Type: application/json' -d "
                     "'{\"code\": \"print(1 + 1)\"}'",
                     why, host != NULL ? host : "localhost");
    return dst;
}

/* What is wrong with the body as a whole. */
static void add_example(const struct api_call *call, struct api_violations *v)
{
    char text[CALL_EXAMPLE_MAX];

    for (size_t i = 0; i < v->n; i++) {
        struct api_violation *one = &v->list[i];
        if (one->n_steps == 0 && str_eq(one->in, "body")) {
            const char *message = call_with_example(call, one->message, text);
            if (message == text) {
                (void)str_copy(one->message, sizeof(one->message), text);
            }
        }
    }
}

/* ---- before it is read ---- */

uint64_t call_body_max(const struct api_call *call)
{
    const struct config *config = call->api->config;
    uint64_t ours = call->info->body == API_BODY_MULTIPART || call->info->body == API_BODY_RAW
                        ? config->max_upload_bytes
                        : config->max_body_bytes;

    return MIN(call->info->body_max, ours);
}

/* NULL, or what is wrong with how the body is labelled. */
static const char *wrong_type(const struct api_call *call)
{
    const struct http_request *req = call->req;
    const char *encoding = http_header(req, "content-encoding");
    bool has_type = http_header(req, "content-type") != NULL;

    if (encoding != NULL && strcasecmp(encoding, "identity") != 0) {
        return "bodies are accepted without Content-Encoding only";
    }
    switch (call->info->body) {
    /* a body is not looked at, but a form of a foreign page does not count as a request */
    case API_BODY_NONE:
    case API_BODY_JSON:
        if ((http_has_body(req) || has_type) && !http_content_is(req, "application/json") &&
            http_method(req) != HTTP_GET && http_method(req) != HTTP_HEAD) {
            return "the body must be JSON, with Content-Type: application/json";
        }
        break;
    case API_BODY_MULTIPART:
        if (!http_content_is(req, "multipart/form-data")) {
            return "the body must be form data, with Content-Type: multipart/form-data";
        }
        break;
    case API_BODY_RAW:
        break;
    }
    return NULL;
}

bool call_body_is_fine(struct api_call *call)
{
    const char *wrong = wrong_type(call);
    uint64_t length = http_content_length(call->req);
    uint64_t max = call_body_max(call);
    char example[CALL_EXAMPLE_MAX];
    char why[96];

    if (wrong != NULL) {
        call_refuse(call, 415, call_with_example(call, wrong, example));
        return false;
    }
    if (call->info->body != API_BODY_NONE && length != HTTP_LENGTH_UNKNOWN && length > max) {
        snprintf(why, sizeof(why), "the body may have at most %llu bytes", (unsigned long long)max);
        call_refuse(call, 413, why);
        return false;
    }
    return true;
}

/* ---- JSON ---- */

struct parse_job {
    uv_work_t work;
    struct fiber *waiter;
    bool is_done;
    char *text;
    size_t len;
    json_t *value;
    struct err e;
};

static void parse_work(uv_work_t *work)
{
    struct parse_job *job = work->data;

    job->value = api_json_parse(job->text, job->len, &job->e);
}

static void parse_done(uv_work_t *work, int status)
{
    struct parse_job *job = work->data;

    job->is_done = true;
    fiber_wake(job->waiter);
}

/* On another thread, and from a copy: the request may be over before it is done. */
static json_t *parse_aside(struct api_call *call, struct err *e)
{
    struct parse_job job = {.waiter = fiber_self(), .len = call->data_len};

    job.work.data = &job;
    job.text = malloc(job.len);
    if (job.text == NULL) {
        err_set(e, ERR_SYSTEM, "no memory for the body");
        return NULL;
    }
    memcpy(job.text, call->data, job.len);
    if (uv_queue_work(call->api->loop, &job.work, parse_work, parse_done) != 0) {
        parse_work(&job.work);
        job.is_done = true;
    }
    while (!job.is_done) {
        (void)fiber_poll(NULL, 0, -1);
    }
    free(job.text);
    *e = job.e;
    return job.value;
}

/* Dialects of FastAPI say 422 to everything that is wrong in a body. */
static int refuse_json(struct api_call *call, const struct err *e, struct api_violations *v)
{
    if (api_is_fastapi(call->dialect)) {
        api_violation_add(v, "body", NULL, "json_invalid", e->msg);
        return 0; /* reported with the others */
    }
    call_reply_error(call, 400, NULL, NULL, e->msg,
                     "Send a JSON object as the contract at /docs describes it.");
    return -1;
}

int call_take_json(struct api_call *call, struct api_violations *v)
{
    struct err e = {0};

    if (call->data != NULL && call->data_len > 0) {
        bool is_large = call->data_len > PARSE_AT_ONCE && call->api->loop != NULL;
        call->is_body_large = is_large;
        if (is_large && v->total > 0) {
            return 0; /* violations name texts of the request, which may be over after a wait */
        }
        call->body =
            is_large ? parse_aside(call, &e) : api_json_parse(call->data, call->data_len, &e);
        call->data = NULL;
        if (call->req == NULL) {
            return -1; /* the client has gone before anything was done for it */
        }
        if (call->body == NULL && e.code == ERR_LIMIT) {
            call_refuse(call, 413, e.msg);
            return -1;
        }
        if (call->body == NULL) {
            int r = refuse_json(call, &e, v);
            add_example(call, v);
            return r;
        }
    }
    (void)api_body_check(call->op, &call->body, v);
    add_example(call, v);
    return 0;
}
