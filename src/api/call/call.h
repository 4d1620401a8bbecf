/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One API call, as a handler sees it.
 *
 * A handler is one function that runs in a fiber of its own from top to bottom: parameters and
 * JSON body have been checked against the contract before it starts; it may wait (base/fiber.h,
 * service/service.h); it answers exactly once. When the client goes away early the handler still
 * runs to its end; what it writes is then dropped, and call_is_gone() is true.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/contract/error.h"
#include "api/contract/route.h"
#include "api/contract/schema.h"
#include "base/err.h"
#include "http/request.h"
#include "service/service.h"

struct agents;
struct api_call;

const char *call_request_id(const struct api_call *call); /* as in X-Request-ID */
struct service *call_service(const struct api_call *call);
uint64_t call_client(const struct api_call *call); /* whose share of the places it uses */
enum api_op call_op(const struct api_call *call);
const struct api_op_info *call_info(const struct api_call *call);
bool call_is_head(const struct api_call *call); /* a HEAD request: the body is dropped */
/* NULL: absent, or the client is gone. Borrowed until the next wait. */
const char *call_header(const struct api_call *call, const char *name);

json_t *call_body(const struct api_call *call); /* JSON body with defaults; NULL: none */
/* 32 bytes over route and body: idempotency. */
const void *call_body_hash(const struct api_call *call);

/* A parameter of path, query or header, by name: NULL or the fallback when absent. */
const char *call_text(const struct api_call *call, const char *name);
int64_t call_int(const struct api_call *call, const char *name, int64_t fallback);
bool call_bool(const struct api_call *call, const char *name, bool fallback);

/* ---- the body of uploads (API_BODY_RAW, API_BODY_MULTIPART): read it before answering ---- */

/*
 * Waits. Bytes, 0 at the end, -errno (-ECONNRESET: the client is gone, -EMSGSIZE: more than
 * allowed; both are answered).
 */
ssize_t call_read(struct api_call *call, char *buf, size_t size);

/*
 * Multipart: the next part. 1 with its name and file name (NULL: none), borrowed until the next
 * part; 0: no more; -errno (-EBADMSG: malformed; answered). call_read() then reads that part.
 */
int call_next_part(struct api_call *call, const char **ret_name, const char **ret_filename);

/* ---- the answer ---- */

void call_add_header(struct api_call *call, const char *name, const char *value);

/* Takes the reference. */
void call_reply_json(struct api_call *call, int status, json_t *value);
void call_reply_text(struct api_call *call, int status, const char *type, const char *text,
                     size_t len);
void call_reply_static(struct api_call *call, int status, const char *type, const void *data,
                       size_t len);
void call_reply_empty(struct api_call *call, int status);

/*
 * The error in the words of the call's dialect: /api/v1 {error_code, description, error_detail,
 * solution, request_id}; /run and /workspace/se as their originals. What is NULL comes from the
 * tables in error.c; what clients must not see (paths and errors of the host) goes to the log
 * instead.
 */
void call_reply_err(struct api_call *call, const struct err *e);
/*
 * The same for a run that has no result; execution_id: NULL if a client cannot ask for it.
 * call_reply_unbegun(): it was refused before anything was made of it.
 */
void call_reply_fault(struct api_call *call, const struct run_fault *fault,
                      const char *execution_id);
void call_reply_unbegun(struct api_call *call, const struct err *e);
json_t *call_fault_json(const struct run_fault *fault); /* `fault` of a recorded execution */
void call_reply_error(struct api_call *call, int status, const char *code, const char *description,
                      const char *detail, const char *solution);
void call_reply_invalid(struct api_call *call, const struct api_violations *v); /* 422 */

/* Piece by piece. call_write() waits while the client is slow; -1: the client is gone. */
void call_begin(struct api_call *call, int status, const char *type, uint64_t length);
int call_write(struct api_call *call, const void *data, size_t len);
void call_end(struct api_call *call);

/*
 * Events: server-sent, or as text messages {"event", "id", "data"} of a WebSocket. call_event()
 * sends to whichever was begun and borrows the data; it waits while the client is slow; -1: the
 * client is gone. call_end() ends both, a WebSocket by close code 1000.
 */
void call_sse_begin(struct api_call *call);
bool call_wants_websocket(const struct api_call *call);
int call_websocket_begin(struct api_call *call); /* -1: no handshake (then answered), or gone */
int call_event(struct api_call *call, const char *id, const char *name, json_t *data);
int call_sse_event(struct api_call *call, const char *id, const char *name, const json_t *data);
int call_websocket_event(struct api_call *call, const char *id, const char *name, json_t *data);

bool call_is_gone(const struct api_call *call);
/*
 * From now on whatever happens to the client wakes the handler's fiber; call_has_left(): it has
 * hung up or is gone.
 */
void call_watch(struct api_call *call);
bool call_has_left(const struct api_call *call);
/*
 * Readable once the client has hung up or is gone: for cancel_fd of a run that only this client
 * waits for. Owned by the call; -1 when none can be created.
 */
int call_gone_fd(struct api_call *call);
/*
 * For questions that are not covered here, and http_abort(); never for an answer. NULL once gone.
 */
struct http_request *call_request(struct api_call *call);

/* ---- start: what the daemon calls ---- */

struct uv_loop_s;
struct http_server;
struct http_error_text;

struct api_options {
    struct service *service;
    const struct config *config;
    /* its thread pool parses large bodies; NULL: they are parsed at once */
    struct uv_loop_s *loop;
};

/*
 * on_request and error_body of struct http_config; user is what api_open() returned. NULL when
 * memory is gone.
 */
struct api *api_open(const struct api_options *options);
/* For /metrics; NULL: forget it. */
void api_set_server(struct api *api, const struct http_server *server);
/* Served agents; before the first request. NULL: none are. */
void api_set_agents(struct api *api, struct agents *agents);
void api_on_request(void *user, struct http_request *req);
void api_error_body(void *user, const struct http_request *req, int status, const char *why,
                    struct http_error_text *ret);
