/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Insides of a call, shared by call*.c and by the handlers that tell about the server itself.
 *
 * A call has two owners: its request (until on_done) and its fiber (until the handler has
 * returned). The last one frees it.
 */
#pragma once

#include <openssl/evp.h>

#include "api/call/call.h"
#include "base/fiber.h"
#include "base/histogram.h"
#include "http/multipart.h"
#include "http/server.h"

#define API_REQUEST_ID_SIZE 21 /* "req_", 16 hex digits, NUL */
#define API_HASH_SIZE 32

struct api_tally {
    uint64_t answers[6]; /* by the first digit of the status; 0: none was possible */
    struct histogram seconds;
};

struct api {
    struct service *service;
    const struct config *config;
    struct uv_loop_s *loop;
    const struct http_server *server;
    struct agents *agents; /* NULL: none are served */
    /*
     * Asked when the contract has no route for a request; which operation does it is in *ret. NULL:
     * the contract is all.
     */
    enum api_found (*more_routes)(struct agents *agents, const char *method, const char *path,
                                  struct api_match *ret);
    EVP_MD *sha256;
    EVP_MD_CTX *digest;
    uint64_t start_ns;
    uint8_t random[256]; /* for request ids */
    size_t random_left;
    char *text; /* answers are written here first */
    size_t text_size;
    struct api_tally tally[API_OPS + 1]; /* the last one: no such operation */
};

/* A piece of a multipart body, in the order of the body. */
struct call_piece;

struct api_call {
    struct api *api;
    struct http_request *req;       /* NULL once over */
    const struct api_op_info *info; /* NULL: no such operation */
    enum api_op op;                 /* API_OPS: none */
    enum api_dialect dialect;
    unsigned refs;
    bool no_retry;         /* the answer is 429, 502 or 503 without Retry-After */
    struct fiber *waiting; /* the handler's, while it waits for the client */
    uint64_t start_ns;
    uint64_t client;        /* which one, for fair shares: see http_client() */
    struct api_match match; /* its texts are the request's: used before the first wait only */
    char request_id[API_REQUEST_ID_SIZE];

    bool is_gone;     /* the request ended without (all of) an answer */
    bool is_hung_up;  /* the client sends nothing more */
    bool is_answered; /* begun at least */
    bool is_open;     /* call_begin() without call_end() */
    bool is_websocket;
    /* by this layer, behind the handler's back: what the handler says is dropped */
    bool is_answered_here;
    int status;
    int gone_fd; /* -1: no handler asked for it */

    json_t *params;
    json_t *body;
    bool has_hash;
    uint8_t hash[API_HASH_SIZE];

    /* JSON body as it came: borrowed from the request. */
    const char *data;
    size_t data_len;

    /* Uploads. */
    bool is_reading;
    bool is_body_over;
    bool is_too_large;
    bool is_body_large; /* it was parsed on another thread */
    uint64_t body_max;
    uint64_t body_got;
    struct buf in;
    struct http_multipart *parts; /* NULL until call_next_part() */
    struct call_piece *first_piece;
    struct call_piece *last_piece;
    struct call_piece *part; /* the part that is being read */
};

/* dispatch.c */
void call_pause(struct api_call *call); /* waits until something happened on the connection */
void call_wake(struct api_call *call);
/* The client wants nothing more, though its request is not over yet. */
void call_lose(struct api_call *call);

/* call_body.c: what is done with a body before the handler starts. 0, or -1: answered. */
int call_take_json(struct api_call *call, struct api_violations *v);
bool call_body_is_fine(struct api_call *call); /* false: answered */
/* The text, with a request that works behind it where a beginner calls; dst is used for that. */
#define CALL_EXAMPLE_MAX 256
const char *call_with_example(const struct api_call *call, const char *why,
                              char dst[static CALL_EXAMPLE_MAX]);
uint64_t call_body_max(const struct api_call *call);

/* call_upload.c */
void call_upload_release(struct api_call *call);

/* call_reply.c */
struct http_request *call_start_answer(struct api_call *call, int status);
void call_refuse(struct api_call *call, int status, const char *why); /* by this layer itself */
void call_reply_api_error(struct api_call *call, const struct api_error *error);
void call_log_error(const struct api_call *call, const struct err *e, int status);
void call_finish(struct api_call *call);       /* the handler has returned */
int call_wait_for_room(struct api_call *call); /* while the client is slow; -1: it is gone */

/* call_hash.c */
void call_make_hash(struct api_call *call);
