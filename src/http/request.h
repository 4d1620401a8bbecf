/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a handler sees of the HTTP server: one request, its body, and the answer to it.
 *
 * The server calls the handler when the head of a request is complete and passes every check. The
 * handler may take the body, and answers exactly once: with http_reply*(), with http_begin(),
 * http_write() and http_end(), with http_sse_begin() or with http_websocket() (http/websocket.h).
 * It may do so at once or at any later time.
 *
 * Life of a request: it is borrowed from the server and dead after on_done, which is called exactly
 * once; after that no other callback comes and the pointer must not be used. A handler that keeps
 * the pointer after it returns therefore sets on_done with http_request_own(). Without on_done the
 * request stays valid until it is answered, even if the client has gone.
 *
 * None of these functions calls a callback, so a handler is never entered twice. Everything happens
 * on the loop's thread. Nothing here shows libuv.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/buf.h"
#include "http/head.h"

#define HTTP_LENGTH_UNKNOWN UINT64_MAX

struct http_request;

enum http_end {
    HTTP_ANSWERED, /* every byte of the answer was handed to the kernel */
    HTTP_GONE,     /* client gone, too slow, refused by the server itself, or the server stops */
};

struct http_peer {
    bool is_unix;
    pid_t pid; /* of a unix socket's client; 0 for TCP */
    uid_t uid; /* likewise; (uid_t)-1 for TCP */
    gid_t gid;
    uint16_t port;    /* TCP only */
    char address[48]; /* "192.0.2.1", "2001:db8::1", or "unix" */
};

/* ---- the head ---- */

enum http_method http_method(const struct http_request *req);
/* Decoded once, begins with '/', or "*". %2F is HTTP_ENCODED_SLASH: it separates no segments. */
const char *http_path(const struct http_request *req);
const char *http_target(const struct http_request *req); /* as it was sent, with the query */
const struct http_peer *http_peer(const struct http_request *req);
/* The same number for requests of the same client, as http/peers.h tells them apart. */
uint64_t http_client(const struct http_request *req);

/* The value of a header field (name in any case), or NULL. Of several: the first. */
const char *http_header(const struct http_request *req, const char *name);
/* Walks all fields: *at starts at 0. False at the end. */
bool http_header_next(const struct http_request *req, size_t *at, const char **ret_name,
                      const char **ret_value);

/* Walks the query: decoded names and values ("" if it has none); *at starts at 0. */
bool http_query_next(const struct http_request *req, size_t *at, const char **ret_name,
                     const char **ret_value);

bool http_content_is(const struct http_request *req, const char *type); /* parameters ignored */
bool http_has_body(const struct http_request *req);
uint64_t http_content_length(const struct http_request *req); /* HTTP_LENGTH_UNKNOWN if chunked */

/* ---- ownership ---- */

/*
 * Every callback of this request gets user. on_done may be NULL (see above). May be called again,
 * e.g. by the next stage of an answer: the last call counts.
 */
void http_request_own(struct http_request *req, void *user,
                      void (*on_done)(void *user, enum http_end how));
void *http_user(const struct http_request *req);

/*
 * on_hangup reports that the client closed its sending side while it waits for the answer. Nearly
 * all clients that do so are gone; a few still read, so the server continues unless the handler
 * calls http_abort(). For server-sent events and WebSockets it always means gone.
 */
void http_on_hangup(struct http_request *req,
                    void (*on_hangup)(void *user, struct http_request *req));
/* Drops the connection without a (complete) answer. on_done follows with HTTP_GONE. */
void http_abort(struct http_request *req);

/* ---- the body: one of these, at most once; a body not taken is discarded ---- */

/*
 * Whole body in memory. More than max is answered with 413 by the server, and on_body is then not
 * called (on_done is). data is borrowed until the request is dead; it is not NUL-terminated.
 * Without a body on_body gets 0 bytes.
 */
void http_collect(struct http_request *req, size_t max,
                  void (*on_body)(void *user, struct http_request *req, char *data, size_t len));

struct http_sink {
    uint64_t max; /* bytes; more is answered with 413 by the server, unless an answer has begun */
    void (*on_data)(void *user, struct http_request *req, const char *data, size_t len);
    void (*on_end)(void *user, struct http_request *req); /* the whole body has come */
};

/* The body piece by piece (at most 32 KB each). Never on_end after a body that was cut off. */
void http_stream_body(struct http_request *req, const struct http_sink *sink);
void http_body_pause(struct http_request *req); /* takes effect after the piece in hand */
void http_body_resume(struct http_request *req);

/* ---- the answer ---- */

/*
 * Adds a field before the answer starts. The server itself writes Date, Content-Length,
 * Content-Type, Connection and Transfer-Encoding. A name or value that could break the head turns
 * the whole answer into 500.
 */
void http_add_header(struct http_request *req, const char *name, const char *value);

/* type may be NULL when there is no body. For HEAD the server leaves the body out. */
void http_reply(struct http_request *req, int status, const char *type, const void *data,
                size_t len); /* data is copied */
void http_reply_owned(struct http_request *req, int status, const char *type, char *data,
                      size_t len); /* data is taken; freed with free() */
void http_reply_static(struct http_request *req, int status, const char *type, const void *data,
                       size_t len); /* data lives as long as the process */

/* The body comes from error_body of the server's configuration. why is one short sentence. */
void http_reply_error(struct http_request *req, int status, const char *why);

/*
 * Answer piece by piece. length may be HTTP_LENGTH_UNKNOWN: chunked for HTTP/1.1, ended by closing
 * for 1.0. With a known length exactly that many bytes must be written before http_end().
 */
void http_begin(struct http_request *req, int status, const char *type, uint64_t length);

/*
 * Queues a copy. 0, or -1 when the client is gone or so slow that the queue has reached its hard
 * limit (then the connection is dropped).
 */
int http_write(struct http_request *req, const void *data, size_t len);
void http_end(struct http_request *req);

/* More bytes wait than the high mark allows: the source must stop and wait for on_drain. */
bool http_is_full(const struct http_request *req);
/* Called each time the queue falls to the low mark after it was full. */
void http_on_drain(struct http_request *req,
                   void (*on_drain)(void *user, struct http_request *req));

/* ---- server-sent events: an answer that stays open; close it with http_end() ---- */

struct http_event {
    const char *id;   /* NULL: none */
    const char *name; /* the "event" line; NULL: none */
    const char *data; /* may hold line ends: each line becomes a "data" line */
    size_t len;
};

/*
 * Adds the event as it is sent to *b: for answers that are streams of events but end like any
 * other.
 */
int http_sse_text(struct buf *b, const struct http_event *event);

/* Sends the head. The server sends a comment whenever the stream was quiet for 15 s. */
void http_sse_begin(struct http_request *req);
/* As http_write(); also -1 when id or name holds a line end. */
int http_sse_event(struct http_request *req, const struct http_event *event);
