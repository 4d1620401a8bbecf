/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server for tests only: one route for each thing that src/http can do, so that clients written
 * with bare sockets can try all of it. Prints "port N" when it listens; every limit can be set on
 * the command line.
 */
#pragma once

#include "http/server.h"
#include "http/websocket.h"

#include <uv.h>

struct echo {
    uv_loop_t loop;
    struct http_server *server;
    size_t body_max;               /* of /echo */
    uint64_t answered;             /* requests that ended with HTTP_ANSWERED */
    uint64_t gone;                 /* with HTTP_GONE */
    uint64_t hangups;              /* on_hangup calls */
    struct http_request *held[16]; /* by /hold, answered by /release */
    size_t nheld;
    struct http_request *events[64]; /* open streams of /sse */
};

extern struct echo echo;

struct route {
    const char *path;
    void (*handle)(struct http_request *req);
};

/* A zeroed job of its own for a request, freed when the request ends. */
struct job {
    struct http_request *req;
    uv_timer_t timer;
    void (*then)(struct job *job);
    uint64_t left;
    uint64_t bytes;
    size_t piece;
    void *more; /* freed with the job */
};

struct job *job_new(struct http_request *req);
void job_after(struct job *job, uint64_t ms, void (*then)(struct job *job));

/* The first query parameter of that name, or NULL. */
const char *query(const struct http_request *req, const char *name);
uint64_t query_number(const struct http_request *req, const char *name, uint64_t fallback);
void reply_text(struct http_request *req, int status, const char *fmt, ...) PRINTF_LIKE(3, 4);

void answer_hello(struct http_request *req);
void answer_later(struct http_request *req);
void answer_headers(struct http_request *req);
void answer_stats(struct http_request *req);
void answer_peer(struct http_request *req);
void answer_error(struct http_request *req);
void answer_hold(struct http_request *req);
void answer_release(struct http_request *req);
void answer_abort(struct http_request *req);
void answer_hangup(struct http_request *req);
void answer_drain(struct http_request *req);
void answer_owned(struct http_request *req);

void body_echo(struct http_request *req);
void body_count(struct http_request *req);
void body_slow(struct http_request *req);
void body_ignore(struct http_request *req);
void body_late(struct http_request *req);
void body_upload(struct http_request *req);

void stream_bytes(struct http_request *req);
void stream_flood(struct http_request *req);
void stream_short(struct http_request *req);
void stream_events(struct http_request *req);
void stream_publish(struct http_request *req);
void stream_websocket(struct http_request *req);
