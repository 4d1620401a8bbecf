/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of the HTTP server: a connection, its one request, and what each file does.
 *
 *     listen.c     accepts, makes connections
 *     admit.c      which clients may connect, and which lose a place
 *     block.c      memory for input
 *     conn.c       creation, input, end
 *     conn_run.c   what to do next: steps, sending, waiting
 *     request.c    begins and ends a request, accessors
 *     body.c       the request's body: decode, collect, stream, discard
 *     reply.c      the answer's head and body
 *     timeouts.c   one coarse tick over all connections
 *
 * A connection has one request at a time, which lives inside it. Functions that a handler calls
 * only queue and mark: http_conn_wake() puts the connection on the server's list, and
 * http_conn_run() does the work later from the loop. So no callback is entered from inside a
 * handler's call, answers to pipelined requests leave in one write, and a handler may answer any
 * request from anywhere on the thread.
 */
#pragma once

#include "base/buf.h"
#include "http/chunked.h"
#include "http/out.h"
#include "http/peers.h"
#include "http/server.h"
#include "http/target.h"

/* Last: its MIN and MAX clash with those of base/attr.h unless they come after. */
#include <uv.h>

#define BLOCK_BYTES 32768
#define BLOCK_POOL_MOST 128
#define DISCARD_MOST 65536    /* unread body that is cheaper to skip than a new connection */
#define REPLY_FIELDS_MAX 8192 /* bytes of header fields that a handler may add */
#define REFUSED_MOST 64       /* connections beyond the limit that get an answer */
#define TICK_MS 250

struct http_websocket_link;

/* Input of one connection. Taken when bytes come, returned when the connection is idle. */
struct block {
    struct block *next;
    size_t start; /* data[start] to data[end] are not yet used */
    size_t end;
    size_t floor; /* the head in use is below and must not move */
    struct http_head head;
    struct http_target target;
    char data[BLOCK_BYTES];
};

/* What becomes of the body. http_body_use() makes every step. */
enum body_mode {
    BODY_WAITING, /* the handler has not decided; the body stays in the block and the socket */
    BODY_COLLECT,
    BODY_STREAM,
    BODY_DISCARD,
};
#define BODY_MODES (BODY_DISCARD + 1)

enum body_progress {
    BODY_COMING,
    BODY_COMPLETE, /* every byte was seen; on_end or on_body may still be due */
    BODY_TOLD,     /* on_end or on_body was called */
};

/* The answer. http_reply_enter() makes every step but the last, back to REPLY_IDLE. */
enum reply_phase {
    REPLY_IDLE, /* there is no request */
    REPLY_DUE,  /* the handler has it and has not answered */
    REPLY_OPEN,
    REPLY_DONE,
    REPLY_REFUSED, /* the server answered by itself: calls of the handler have no effect */
};
#define REPLY_PHASES (REPLY_REFUSED + 1)

/* How the client sees where the answer's body ends. */
enum reply_framing {
    FRAMING_NO_BODY, /* HEAD, 101, 204, 304 */
    FRAMING_SIZED,
    FRAMING_CHUNKED,
    FRAMING_CLOSE,
};

struct http_request {
    struct http_conn *conn;
    void *user;
    void (*on_done)(void *user, enum http_end how);
    void (*on_hangup)(void *user, struct http_request *req);
    void (*on_drain)(void *user, struct http_request *req);
    void (*on_body)(void *user, struct http_request *req, char *data, size_t len);
    struct http_sink sink;

    enum body_mode body_mode;
    enum body_progress body_progress;
    bool is_body_paused;
    bool is_continue_due; /* the client waits for 100 Continue */
    struct http_chunked chunked;
    uint64_t body_left; /* of Content-Length */
    uint64_t body_got;
    uint64_t body_max;
    struct buf body; /* collected */

    enum reply_phase reply;
    enum reply_framing framing;
    uint64_t reply_left; /* bytes that may still be written; HTTP_LENGTH_UNKNOWN: any number */
    struct buf fields;   /* "Name: value\r\n" ... */
    bool are_fields_bad;
    bool was_full; /* on_drain is due */
    bool is_sse;
    struct http_websocket_link *websocket;
};

/* http_conn_enter() makes every step. From CONN_ORPHAN on the socket is closed. */
enum conn_phase {
    CONN_HEAD,    /* idle, or a head is coming */
    CONN_REQUEST, /* the handler has been called */
    CONN_CLOSING, /* sends what is queued; reads no more requests */
    CONN_LINGER,  /* answered and half closed; reads on so that the client sees the answer */
    CONN_DOOMED,  /* to be dropped by the next http_conn_run() */
    CONN_ORPHAN,  /* the handler has still to answer: the memory must stay */
    CONN_DEAD,    /* the memory is freed when neither libuv nor a list needs it */
};
#define CONN_PHASES (CONN_DEAD + 1)

/* What follows the current request. Only ever grows: see http_conn_end_after(). */
enum conn_after {
    AFTER_NEXT, /* another request */
    AFTER_CLOSE,
    AFTER_LINGER, /* the client may still be sending */
};

enum conn_input {
    INPUT_ON,
    INPUT_OFF, /* bytes came that the request does not want: not read until it ends */
    INPUT_ENDED,
};

enum conn_turn {
    TURN_NONE,
    TURN_AWAKE, /* on the list of those to run */
    TURN_RUNNING,
};

struct http_conn {
    struct http_server *server;
    struct http_conn *prev; /* all connections */
    struct http_conn *next;
    struct http_conn *next_awake;
    uv_poll_t poll;
    int fd;
    int armed; /* events that the poll waits for */
    enum conn_phase phase;
    enum conn_after after;
    enum conn_input input;
    enum conn_turn turn;
    bool has_hung_up; /* as the kernel reports, perhaps before the last bytes are read */
    bool is_poll_closed;
    bool is_over_limit;
    bool has_served; /* at least one request */
    struct block *block;
    struct http_out out;
    struct http_peer peer;
    struct http_peer_entry *entry; /* of its client; NULL: it does not count */
    uint64_t since;        /* of the phase; in CONN_HEAD: of its first byte, if there is one */
    uint64_t window_start; /* of the body's rate */
    uint64_t window_bytes;
    uint64_t wrote_at; /* last time the kernel or the client took something, or the queue began */
    int unread;        /* bytes in the kernel's send buffer at the last look */
    uint64_t sent;     /* bytes that the kernel took, of all answers */
    uint64_t taken_at; /* since when the client's rate is measured; 0: it is not */
    uint64_t taken;    /* bytes that it had taken then */
    struct http_request req;
};

enum server_phase { SERVER_OPEN, SERVER_DRAINING, SERVER_FREED };

struct listener {
    struct listener *next;
    struct http_server *server;
    uv_poll_t poll;
    int fd;
    bool is_unix;
};

struct http_server {
    struct http_config config;
    uv_loop_t *loop;
    uv_idle_t idle; /* active while awake != NULL or on_drained is due */
    uv_timer_t tick;
    unsigned handles; /* libuv handles of the server itself that are not closed yet */
    enum server_phase phase;
    uint64_t accept_again; /* the listeners are off until then; 0: they are on */
    uint64_t drain_deadline;
    void (*on_drained)(void *user);
    void *drained_user;
    int reserve; /* a descriptor to give up when they run out */
    struct listener *listeners;
    struct http_conn *conns;
    struct http_conn *awake;
    size_t memories; /* connections whose memory is not freed yet, closed ones included */
    size_t over_limit;
    size_t near; /* connections that count and come from this machine */
    struct http_peers *peers;
    struct http_pool pool;
    struct block *blocks; /* at rest */
    size_t nblocks;
    time_t date_second;
    char date[32];
    struct http_stats stats;
};

/* block.c */
struct block *http_block_take(struct http_server *s); /* NULL without memory */
void http_block_give(struct http_conn *c);
void http_block_start_head(struct block *b); /* its bytes are parsed as a new head */
/* False if there is no room behind the bytes in it: they must be used first. */
bool http_block_make_room(struct block *b, bool is_head);
/* The head is complete and stays where it is from now on; leaves room for a body behind it. */
void http_block_pin_head(struct block *b);

/* admit.c */
/* Counts it. 0, or the status to refuse the connection with. */
int http_admit(struct http_conn *c, const struct sockaddr_storage *address);
void http_admit_forget(struct http_conn *c); /* no longer counts it */

/* listen.c */
void http_listeners_resume(struct http_server *s);
void http_listeners_close(struct http_server *s);

/* conn.c */
struct http_conn *http_conn_new(struct http_server *s, int fd, const struct http_peer *peer);
void http_conn_enter(struct http_conn *c, enum conn_phase phase);
void http_conn_end_after(struct http_conn *c, enum conn_after after);
void http_conn_wake(struct http_conn *c); /* run it soon; callable from anywhere */
void http_conn_doom(struct http_conn *c);
/* Closes the socket now. is_final: the server is being freed, so the request ends in any case. */
void http_conn_kill(struct http_conn *c, bool is_final);
bool http_conn_is_gone(const struct http_conn *c); /* the socket is closed */
bool http_conn_is_lost(const struct http_conn *c); /* or about to be */
bool http_conn_wants_input(const struct http_conn *c);
void http_conn_on_poll(uv_poll_t *poll, int status, int events);
/* Frees the memory once the poll is closed and neither the handler nor a list needs it. */
void http_conn_forget(struct http_conn *c);

/* conn_run.c */
void http_conn_run(struct http_conn *c); /* from the loop only */
/* Answers an error outside of a request and closes. */
void http_conn_refuse(struct http_conn *c, int status, const char *why);

/* request.c */
void http_request_begin(struct http_conn *c);
bool http_request_can_end(const struct http_conn *c);
void http_request_end(struct http_conn *c, enum http_end how);
/* Answers instead of the handler; drops the connection if an answer has begun. */
void http_request_refuse(struct http_request *req, int status, const char *why);

/* body.c */
bool http_body_step(struct http_conn *c); /* true if it made progress */
bool http_body_wants_input(const struct http_request *req);
void http_body_use(struct http_request *req, enum body_mode mode);

/* reply.c */
void http_reply_enter(struct http_request *req, enum reply_phase phase);
/* Nothing more is added to the answer. Does nothing if it is over already. */
void http_reply_close(struct http_request *req);
/* Ends an open answer: marks the end of its body, or drops the connection if that is too early. */
void http_reply_finish(struct http_request *req, enum reply_phase phase);
void http_reply_refusal(struct http_conn *c, const struct http_request *req, int status,
                        const char *why);
bool http_reply_may_start(struct http_request *req);
void http_reply_field(struct http_request *req, const char *name, const char *value);
int http_reply_head(struct http_request *req, int status, const char *type, uint64_t length);

/* server.c */
void http_server_wake(struct http_server *s);
void http_server_forget(struct http_server *s); /* frees it once nothing uses it */
void http_server_tick_on(struct http_server *s);
const char *http_server_date(struct http_server *s);

/* timeouts.c */
void http_timeouts_check(struct http_server *s);

/* sse.c, websocket.c: what the server itself does for streams */
void http_sse_goodbye(struct http_request *req);
void http_sse_heartbeat(struct http_request *req);
bool http_websocket_step(struct http_conn *c);
bool http_websocket_wants_input(const struct http_request *req);
void http_websocket_goodbye(struct http_request *req);
void http_websocket_tick(struct http_request *req, uint64_t now);
void http_websocket_free(struct http_request *req);
