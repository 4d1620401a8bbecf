/* SPDX-License-Identifier: Apache-2.0 */
/* Routes of the test server that answer without looking at a body; see echo.h. */
#include "echo.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

void answer_hello(struct http_request *req)
{
    http_reply(req, 200, "text/plain", "hello\n", 6);
}

static void say_later(struct job *job)
{
    reply_text(job->req, 200, "later\n");
}

void answer_later(struct http_request *req)
{
    job_after(job_new(req), query_number(req, "ms", 50), say_later);
}

/* Query parameters become fields of the answer, however odd. */
void answer_headers(struct http_request *req)
{
    size_t at = 0;
    const char *name;
    const char *value;

    while (http_query_next(req, &at, &name, &value)) {
        http_add_header(req, name, value);
    }
    http_reply(req, 200, "text/plain", "ok\n", 3);
}

static long resident_kb(void)
{
    char text[256];
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");

    if (f != NULL && fgets(text, sizeof(text), f) != NULL) {
        const char *second = strchr(text, ' ');
        pages = second == NULL ? 0 : strtol(second, NULL, 10);
    }
    if (f != NULL) {
        fclose(f);
    }
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

void answer_stats(struct http_request *req)
{
    struct http_stats s = http_server_stats(echo.server);

    reply_text(req, 200,
               "{\"accepted\":%" PRIu64 ",\"heads\":%" PRIu64 ",\"requests\":%" PRIu64
               ",\"refused\":%" PRIu64 ",\"timeouts\":%" PRIu64 ",\"over_limit\":%" PRIu64
               ",\"evicted\":%" PRIu64 ",\"accept_pauses\":%" PRIu64
               ",\"open\":%zu,\"busy\":%zu,\"answered\":%" PRIu64 ",\"gone\":%" PRIu64
               ",\"hangups\":%" PRIu64 ",\"rss_kb\":%ld}\n",
               s.accepted, s.heads, s.requests, s.refused, s.timeouts, s.over_limit, s.evicted,
               s.accept_pauses, s.open, s.busy, echo.answered, echo.gone, echo.hangups,
               resident_kb());
}

void answer_peer(struct http_request *req)
{
    const struct http_peer *peer = http_peer(req);

    reply_text(req, 200, "%s unix=%d pid=%d uid=%d gid=%d port=%d\n", peer->address, peer->is_unix,
               (int)peer->pid, (int)peer->uid, (int)peer->gid, peer->port != 0);
}

void answer_error(struct http_request *req)
{
    http_reply_error(req, (int)query_number(req, "status", 500), "as you wished");
}

/* Answers without on_done, whenever /release comes: also to clients that are long gone. */
void answer_hold(struct http_request *req)
{
    if (echo.nheld == ARRAY_LEN(echo.held)) {
        http_reply_error(req, 503, "enough");
        return;
    }
    echo.held[echo.nheld++] = req;
}

void answer_release(struct http_request *req)
{
    size_t n = echo.nheld;

    for (size_t i = 0; i < n; i++) {
        reply_text(echo.held[i], 200, "released %s\n", http_path(echo.held[i]));
    }
    echo.nheld = 0;
    reply_text(req, 200, "%zu\n", n);
}

void answer_abort(struct http_request *req)
{
    job_new(req);
    http_abort(req);
}

static void on_hangup(void *user, struct http_request *req)
{
    (void)user;
    echo.hangups++;
    http_abort(req);
}

void answer_hangup(struct http_request *req)
{
    job_new(req);
    http_on_hangup(req, on_hangup);
}

static void on_drained(void *user)
{
    (void)user;
    http_server_free(echo.server);
}

static void start_drain(struct job *job)
{
    http_server_drain(echo.server, 2000, on_drained, NULL);
    reply_text(job->req, 200, "draining\n");
}

void answer_drain(struct http_request *req)
{
    job_after(job_new(req), 0, start_drain);
}

void answer_owned(struct http_request *req)
{
    size_t n = query_number(req, "n", 1 << 20);
    char *data = malloc(n + 1);

    memset(data, 'o', n);
    http_reply_owned(req, 200, "text/plain", data, n);
}
