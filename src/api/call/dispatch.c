/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a request to its handler and back: finds the operation, checks what came, runs the handler
 * in a fiber, and sees to it that one answer leaves. See call.h.
 */
#include "api/call/call.h"

#include <malloc.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "api/call/call_impl.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/rand.h"
#include "base/str.h"
#include "http/target.h"

#define QUERY_MAX 64 /* parameters; the target's length bounds them as well */
#define TEXT_START ((size_t)64 << 10)

/* ---- the API as a whole ---- */

struct api *api_open(const struct api_options *options)
{
    struct api *api = calloc(1, sizeof(*api));

    if (api == NULL) {
        return NULL;
    }
    *api = (struct api){
        .service = options->service,
        .config = options->config,
        .loop = options->loop,
        .sha256 = EVP_MD_fetch(NULL, "SHA256", NULL),
        .digest = EVP_MD_CTX_new(),
        .start_ns = clock_ns(),
        .text = malloc(TEXT_START),
        .text_size = TEXT_START,
    };
    json_object_seed(0); /* now, and not by two threads at once later */
    if (api->sha256 == NULL || api->digest == NULL || api->text == NULL) {
        EVP_MD_free(api->sha256);
        EVP_MD_CTX_free(api->digest);
        free(api->text);
        free(api);
        return NULL;
    }
    return api;
}

void api_set_server(struct api *api, const struct http_server *server)
{
    api->server = server;
}

/* Random bytes are taken in large pieces: one system call for 32 requests. */
static void make_request_id(struct api *api, char ret[static API_REQUEST_ID_SIZE])
{
    static const char hex[] = "0123456789abcdef";
    char *p = ret + 4;

    if (api->random_left < 8) {
        rand_bytes(api->random, sizeof(api->random));
        api->random_left = sizeof(api->random);
    }
    (void)str_copy(ret, API_REQUEST_ID_SIZE, "req_");
    for (int i = 0; i < 8; i++) {
        uint8_t byte = api->random[--api->random_left];
        *p++ = hex[byte >> 4];
        *p++ = hex[byte & 15];
    }
    *p = '\0';
}

void api_error_body(void *user, const struct http_request *req, int status, const char *why,
                    struct http_error_text *ret)
{
    struct api *api = user;
    const struct api_call *call = req != NULL ? http_user(req) : NULL;
    enum api_dialect dialect =
        call != NULL  ? call->dialect
        : req != NULL ? api_dialect_of(http_target(req)) /* its path may be malformed */
                      : API_COMMON;
    struct api_error error = {.status = status, .detail = why};
    char fresh[API_REQUEST_ID_SIZE];
    const char *id = call != NULL ? call->request_id : fresh;

    make_request_id(api, fresh);
    json_t *body = api_error_json(dialect, &error, id);
    size_t n = body != NULL ? json_dumpb(body, ret->body, sizeof(ret->body), JSON_COMPACT) : 0;
    json_decref(body);
    ret->len = n <= sizeof(ret->body) ? n : 0;
    (void)str_format(ret->fields, sizeof(ret->fields), "X-Request-ID: %s\r\n", id);
}

/* ---- life of a call ---- */

static void call_unref(struct api_call *call)
{
    if (--call->refs > 0) {
        return;
    }
    json_decref(call->params);
    json_decref(call->body);
    call_upload_release(call);
    fd_close(&call->gone_fd);
    if (call->is_body_large) {
        (void)malloc_trim(0); /* a tree of small pieces: malloc would keep all of it */
    }
    free(call);
}

void call_wake(struct api_call *call)
{
    fiber_wake(call->waiting);
}

void call_pause(struct api_call *call)
{
    struct fiber *before = call->waiting; /* stays set after call_watch() */

    call->waiting = fiber_self();
    (void)fiber_poll(NULL, 0, -1);
    call->waiting = before;
}

static void tell_gone(struct api_call *call)
{
    static const uint64_t one = 1;

    if (call->gone_fd >= 0) {
        ssize_t n = write(call->gone_fd, &one, sizeof(one));
        (void)n; /* can fail only if it is readable already */
    }
}

static void on_done(void *user, enum http_end how)
{
    struct api_call *call = user;

    call->req = NULL;
    call->data = NULL;
    /*
     * An answer that is still open has ended without its handler: a WebSocket whose client broke
     * the rules.
     */
    call->is_gone = call->is_gone || call->is_open || how == HTTP_GONE;
    if (call->is_gone) {
        tell_gone(call);
    }
    call_wake(call);
    call_unref(call);
}

void call_lose(struct api_call *call)
{
    call->is_gone = true;
    call->is_open = false;
    tell_gone(call);
    call_wake(call);
}

static void on_hangup(void *user, struct http_request *req)
{
    struct api_call *call = user;

    call->is_hung_up = true;
    tell_gone(call);
    call_wake(call);
}

static void on_drain(void *user, struct http_request *req)
{
    call_wake(user);
}

static struct api_call *call_new(struct api *api, struct http_request *req)
{
    struct api_call *call = calloc(1, sizeof(*call));

    if (call == NULL) {
        return NULL;
    }
    call->api = api;
    call->req = req;
    call->client = http_client(req);
    call->refs = 1;
    call->start_ns = clock_ns();
    call->op = API_OPS;
    call->gone_fd = -1;
    make_request_id(api, call->request_id);
    http_request_own(req, call, on_done);
    http_on_drain(req, on_drain);
    return call;
}

/* ---- from the request to the handler ---- */

static const char *find_header(void *user, const char *name)
{
    return http_header(user, name);
}

static int check_params(struct api_call *call, struct api_violations *v)
{
    struct api_pair query[QUERY_MAX];
    struct api_request_text text = {
        .match = &call->match,
        .slash = HTTP_ENCODED_SLASH,
        .query = query,
        .header = find_header,
        .user = call->req,
    };
    size_t at = 0;

    while (text.n_query < QUERY_MAX &&
           http_query_next(call->req, &at, &query[text.n_query].name, &query[text.n_query].value)) {
        text.n_query++;
    }
    const char *name;
    const char *value;
    if (text.n_query == QUERY_MAX && http_query_next(call->req, &at, &name, &value)) {
        return api_violation_add(v, "query", NULL, "too_long", "the query has too many parameters");
    }
    return api_params_check(&text, &call->params, v);
}

/* 0, or -1: answered. */
static int call_check(struct api_call *call)
{
    struct api_violations v;

    v.n = 0;
    v.total = 0;
    (void)check_params(call, &v);
    if (call->info->body == API_BODY_JSON && call_take_json(call, &v) < 0) {
        return -1;
    }
    if (v.total > 0) {
        call_reply_invalid(call, &v);
        return -1;
    }
    /* Before the handler can change the body. */
    if (json_object_get(call->params, "idempotency-key") != NULL) {
        call_make_hash(call);
    }
    return 0;
}

/*
 * Apart from its caller, so that the violations do not stay on the stack of a handler that waits
 * for long.
 */
static __attribute__((noinline)) bool is_request_valid(struct api_call *call)
{
    return call_check(call) == 0;
}

static void call_main(void *user)
{
    struct api_call *call = user;

    if (is_request_valid(call)) {
        api_handlers[call->op](call);
    }
    call->waiting = NULL; /* this fiber ends */
    call_finish(call);
    call_unref(call);
}

static void call_start(struct api_call *call)
{
    call->refs++;
    if (fiber_start(call_main, call) < 0) {
        call_refuse(call, 503, "the server has no memory for another request");
        call_unref(call);
    }
}

static void on_body(void *user, struct http_request *req, char *data, size_t len)
{
    struct api_call *call = user;

    call->data = data;
    call->data_len = len;
    call_start(call);
}

static void refuse_method(struct api_call *call)
{
    char allow[API_ALLOW_MAX];
    char example[CALL_EXAMPLE_MAX];

    api_allow_text(call->match.allow, allow);
    http_add_header(call->req, "Allow", allow);
    call_refuse(call, 405,
                call_with_example(call, "the address does not have this method", example));
}

/* What the contract has comes first. */
static enum api_found find_route(struct api_call *call, const char *path)
{
    const struct api *api = call->api;
    const char *method = http_method_name(http_method(call->req));
    enum api_found found = api_route_match(method, path, strlen(path), &call->match);

    if (found != API_FOUND && api->more_routes != NULL) {
        struct api_match more = {0};
        enum api_found also = api->more_routes(api->agents, method, path, &more);
        if (also != API_NOT_FOUND) {
            call->match = more;
            return also;
        }
    }
    return found;
}

void api_on_request(void *user, struct http_request *req)
{
    struct api_call *call = call_new(user, req);
    const char *path = http_path(req);

    if (call == NULL) {
        http_reply_error(req, 503, "the server has no memory for another request");
        return;
    }
    call->dialect = api_dialect_of(path);
    switch (find_route(call, path)) {
    case API_NOT_FOUND:
        call_refuse(call, 404, "there is nothing at this address");
        return;
    case API_METHOD_REFUSED:
        refuse_method(call);
        return;
    case API_FOUND:
        break;
    }
    call->op = call->match.op;
    call->info = api_op_get(call->op);
    call->dialect = call->info->dialect;
    if (!call_body_is_fine(call)) {
        return;
    }
    if (call->info->body == API_BODY_JSON && http_has_body(req)) {
        http_collect(req, (size_t)call_body_max(call), on_body);
    } else {
        call_start(call);
    }
}

/* ---- is the client still there? ---- */

bool call_is_gone(const struct api_call *call)
{
    return call->is_gone;
}

void call_watch(struct api_call *call)
{
    call->waiting = fiber_self();
    if (call->req != NULL) {
        http_on_hangup(call->req, on_hangup);
    }
}

bool call_has_left(const struct api_call *call)
{
    return call->is_hung_up || call->req == NULL;
}

int call_gone_fd(struct api_call *call)
{
    if (call->gone_fd < 0) {
        call->gone_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (call->req != NULL) {
            http_on_hangup(call->req, on_hangup);
        } else {
            tell_gone(call);
        }
    }
    return call->gone_fd;
}
