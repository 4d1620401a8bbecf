/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strict HTTP/1.1 server on a libuv loop: listeners, limits, life and end.
 *
 * One handler gets every request; what it can do with one is in http/request.h. The server knows
 * neither routes nor JSON. It refuses every ambiguous request (see http/head.h) with a closed
 * connection, answers its own errors by the configured error_body, and bounds connections, time and
 * memory of every client. Runs on the loop's thread only.
 *
 *     struct http_config config = http_config_default();
 *     config.on_request = handle;                  (void *user, struct http_request *req)
 *     config.hosts = allowed; config.nhosts = 3;   {"localhost", "127.0.0.1", "[::1]:8000"}
 *     struct http_server *server = http_server_new(loop, &config, &e);
 *     http_server_listen(server, fd, &e);          as often as there are listening sockets
 *     uv_run(loop, UV_RUN_DEFAULT);
 */
#pragma once

#include "base/err.h"
#include "http/request.h"

struct uv_loop_s;
struct http_server;

struct http_limits {
    size_t connections; /* all together; one more takes the place of an idle one, or gets 503 */
    size_t per_address; /* per client as in http/peers.h; one more gets 429 */
    unsigned head_ms;   /* from the first byte of a head to its end: 408 */
    unsigned idle_ms;   /* between requests: closed */
    unsigned body_window_ms; /* in each such window a body must bring body_bytes_per_s: 408 */
    unsigned body_bytes_per_s;
    unsigned write_ms; /* output waits and the client takes none, or less than its share: dropped */
    unsigned linger_ms;    /* after a refusal: how long to read on, so that the client sees it */
    unsigned heartbeat_ms; /* comment on a quiet event stream */
    unsigned ping_ms;      /* WebSocket ping; dropped after two without any byte from the client */
    size_t queue_high;     /* bytes waiting for the client: http_is_full() */
    size_t queue_low;      /* on_drain */
    size_t queue_max;      /* of streamed answers and WebSockets: beyond, the client is dropped */
    size_t websocket_message;  /* bytes of one message from the client: close code 1009 */
    unsigned websocket_frames; /* fragments of one message: close code 1008 */
};

#define HTTP_ERROR_BODY_MAX 2048

/* What error_body writes. */
struct http_error_text {
    char body[HTTP_ERROR_BODY_MAX];
    size_t len;
    char fields[128]; /* lines for the head of a refusal, each with its CRLF; "" at first */
};

struct http_config {
    struct http_limits limits;

    /* Called once per request, when its head is complete and accepted. */
    void (*on_request)(void *user, struct http_request *req);

    /*
     * Writes the JSON body of an error that the server answers (or http_reply_error(), which uses
     * the handler's fields and ignores these). req is NULL when there is no well-formed head. why
     * is plain ASCII without quotes or backslashes when it comes from the server itself. NULL:
     * {"error":"why"}.
     */
    void (*error_body)(void *user, const struct http_request *req, int status, const char *why,
                       struct http_error_text *ret);
    void *user; /* of both */

    /*
     * Names by which clients may call this server: "name" (any port) or "name:port". TCP only:
     * another Host gets 421. any_host turns the check off, e.g. behind a proxy that does it.
     */
    const char *const *hosts; /* borrowed for the life of the server */
    size_t nhosts;
    bool any_host;

    /*
     * Web origins that may call: "name", "name:port" or "scheme://name:port". A request whose
     * Origin is neither listed nor equal to its own Host gets 403. Requests without Origin pass.
     */
    const char *const *origins; /* borrowed likewise */
    size_t norigins;
};

struct http_stats {
    uint64_t accepted;      /* connections */
    uint64_t heads;         /* requests as the parser saw them, refused ones included */
    uint64_t requests;      /* heads that reached on_request */
    uint64_t refused;       /* answers 4xx/5xx that the server gave by itself */
    uint64_t timeouts;      /* connections ended by one of the time limits */
    uint64_t over_limit;    /* connections beyond connections or per_address */
    uint64_t evicted;       /* idle connections dropped for another client */
    uint64_t accept_pauses; /* times that descriptors ran out */
    size_t open;            /* connections now */
    size_t busy;            /* of these: with a running request */
};

struct http_config http_config_default(void);

/*
 * The loop is borrowed and must outlive the server. Ignores SIGPIPE in this process, so that it
 * survives a closed log pipe. NULL and *e on failure.
 */
struct http_server *http_server_new(struct uv_loop_s *loop, const struct http_config *config,
                                    struct err *e);

/* Sets limits, hosts and origins from the next request on; everything else stays. */
void http_server_reconfigure(struct http_server *s, const struct http_config *config);

/* Adopts a listening stream socket, TCP or unix. fd is taken on success. */
int http_server_listen(struct http_server *s, int fd, struct err *e);

/*
 * Stops accepting (closes its copies of the listening sockets), ends idle connections, event
 * streams and WebSockets (1001), lets running requests finish with Connection: close, and drops the
 * rest after ms. on_drained is called once, when no connection is left.
 */
void http_server_drain(struct http_server *s, unsigned ms, void (*on_drained)(void *user),
                       void *user);

/*
 * Drops everything at once: each request gets on_done before this returns. The memory is freed when
 * the loop has run once more. NULL is allowed.
 */
void http_server_free(struct http_server *s);

struct http_stats http_server_stats(const struct http_server *s);
