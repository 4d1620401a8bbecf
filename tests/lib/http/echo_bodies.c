/* SPDX-License-Identifier: Apache-2.0 */
/* Routes of the test server that take a body; see echo.h. */
#include "echo.h"

#include <inttypes.h>
#include <string.h>

#include "base/buf.h"
#include "http/multipart.h"

/*
 * First line: method, path, number of query parameters and body bytes. Then the parameters, then
 * the body.
 */
static void say_what_came(void *user, struct http_request *req, char *data, size_t len)
{
    AUTO_BUF struct buf b = BUF_INIT(SIZE_MAX / 2);
    size_t at = 0;
    size_t n = 0;
    const char *name;
    const char *value;

    (void)user;
    while (http_query_next(req, &at, &name, &value)) {
        n++;
    }
    buf_printf(&b, "%s %s %zu %zu\n", http_method_name(http_method(req)), http_path(req), n, len);
    at = 0;
    while (http_query_next(req, &at, &name, &value)) {
        buf_printf(&b, "%s=%s\n", name, value);
    }
    buf_add(&b, data, len);
    http_reply(req, 200, "text/plain", b.data, b.len);
}

void body_echo(struct http_request *req)
{
    http_collect(req, echo.body_max, say_what_came);
}

/* ---- streamed ---- */

static void on_count(void *user, struct http_request *req, const char *data, size_t len)
{
    struct job *job = user;

    (void)req;
    (void)data;
    job->bytes += len;
}

static void on_count_end(void *user, struct http_request *req)
{
    struct job *job = user;

    reply_text(req, 200, "%" PRIu64 "\n", job->bytes);
}

void body_count(struct http_request *req)
{
    const struct http_sink sink = {
        .max = query_number(req, "max", UINT64_MAX), .on_data = on_count, .on_end = on_count_end};

    job_new(req);
    http_stream_body(req, &sink);
}

static void go_on(struct job *job)
{
    http_body_resume(job->req);
}

static void on_slow(void *user, struct http_request *req, const char *data, size_t len)
{
    struct job *job = user;

    on_count(user, req, data, len);
    http_body_pause(req);
    job_after(job, job->left, go_on);
}

/* Pauses after every piece. */
void body_slow(struct http_request *req)
{
    const struct http_sink sink = {.max = UINT64_MAX, .on_data = on_slow, .on_end = on_count_end};

    job_new(req)->left = query_number(req, "ms", 1);
    http_stream_body(req, &sink);
}

void body_ignore(struct http_request *req)
{
    reply_text(req, 200, "ignored\n");
}

static void take_now(struct job *job)
{
    http_collect(job->req, echo.body_max, say_what_came);
}

/* Decides late that it wants the body. */
void body_late(struct http_request *req)
{
    job_after(job_new(req), query_number(req, "ms", 50), take_now);
}

/* ---- multipart ---- */

struct upload {
    struct http_multipart parser;
    struct buf list;
    size_t bytes;
    bool has_failed;
};

static int on_part(void *user, const struct http_part *part)
{
    struct upload *u = user;

    u->bytes = 0;
    return buf_printf(&u->list, "%s|%s|%s|", part->name, part->has_filename ? part->filename : "-",
                      part->type);
}

static int on_part_data(void *user, const char *data, size_t len)
{
    struct upload *u = user;

    (void)data;
    u->bytes += len;
    return 0;
}

static int on_part_end(void *user)
{
    struct upload *u = user;

    return buf_printf(&u->list, "%zu\n", u->bytes);
}

static const struct http_multipart_calls part_calls = {on_part, on_part_data, on_part_end};

static void on_upload_data(void *user, struct http_request *req, const char *data, size_t len)
{
    struct upload *u = ((struct job *)user)->more;

    if (!u->has_failed && http_multipart_feed(&u->parser, data, len) < 0) {
        u->has_failed = true;
        http_reply_error(req, 400, u->parser.why != NULL ? u->parser.why : "stopped");
        buf_release(&u->list);
    }
}

static void on_upload_end(void *user, struct http_request *req)
{
    struct upload *u = ((struct job *)user)->more;

    if (http_multipart_finish(&u->parser) < 0) {
        http_reply_error(req, 400, u->parser.why);
    } else {
        http_reply(req, 200, "text/plain", u->list.data, u->list.len);
    }
    buf_release(&u->list);
}

void body_upload(struct http_request *req)
{
    const struct http_sink sink = {
        .max = UINT64_MAX, .on_data = on_upload_data, .on_end = on_upload_end};
    struct upload *u = calloc(1, sizeof(*u));

    if (u == NULL) {
        abort();
    }
    u->list = BUF_INIT(65536);
    job_new(req)->more = u;
    if (http_multipart_init(&u->parser, http_header(req, "content-type"), 16, &part_calls, u) < 0) {
        http_reply_error(req, 400, u->parser.why);
        return;
    }
    http_stream_body(req, &sink);
}
