/* SPDX-License-Identifier: Apache-2.0 */
/* Start and end of a request, and its accessors; see request.h and conn.h. */
#include "http/conn.h"
#include "http/field.h"
#include "http/host.h"

#define FIELDS_KEPT 1024 /* bytes of memory for answer fields that a connection keeps */

static const struct http_head *head_of(const struct http_request *req)
{
    return &req->conn->block->head;
}

/* Checks Host and Origin. 0, or the status to refuse with. */
static int check_names(const struct http_conn *c, const struct http_head *h, const char **ret_why)
{
    const struct http_config *config = &c->server->config;
    const char *host = http_head_known(h, HTTP_HOST);
    const char *origin = http_head_known(h, HTTP_ORIGIN);

    if (!c->peer.is_unix && !config->any_host &&
        !http_host_served(config->hosts, config->nhosts, host)) {
        *ret_why =
            "this Host is not served here: call the server by its address or as localhost, or "
            "start it with --allowed-hosts NAME (setting allowed_hosts)";
        return 421;
    }
    if (origin != NULL && !http_origin_listed(config->origins, config->norigins, origin, host)) {
        *ret_why = "this Origin may not call here";
        return 403;
    }
    return 0;
}

void http_request_begin(struct http_conn *c)
{
    struct http_head *h = &c->block->head;
    struct http_request *req = &c->req;
    const char *why = "malformed target";

    c->has_served = true;
    c->server->stats.busy++;
    http_reply_enter(req, REPLY_DUE);
    req->body_left = h->content_length;
    req->body_progress = http_has_body(req) ? BODY_COMING : BODY_COMPLETE;
    req->is_continue_due = h->expects_continue && c->block->start == c->block->end;
    if (h->wants_close || c->server->phase == SERVER_DRAINING) {
        http_conn_end_after(c, AFTER_CLOSE);
    }

    int status = http_target_split(http_head_target(h), h->method, http_head_known(h, HTTP_HOST),
                                   &c->block->target);
    if (status == 0) {
        status = check_names(c, h, &why);
    }
    if (status != 0) {
        http_request_refuse(req, status, why);
        return;
    }
    c->server->stats.requests++;
    c->server->config.on_request(c->server->config.user, req);
}

bool http_request_can_end(const struct http_conn *c)
{
    const struct http_request *req = &c->req;

    /* With on_done it ends when the kernel has every byte; without, when all is queued. */
    return req->reply >= REPLY_DONE &&
           (req->body_progress != BODY_COMING || c->after != AFTER_NEXT) &&
           (req->on_done == NULL || c->out.first == NULL);
}

void http_request_end(struct http_conn *c, enum http_end how)
{
    struct http_request *req = &c->req;
    void (*on_done)(void *, enum http_end) = req->on_done;
    void *user = req->user;
    struct buf fields = req->fields;

    http_websocket_free(req);
    buf_release(&req->body);
    fields.len = 0;
    if (fields.cap > FIELDS_KEPT) {
        buf_release(&fields);
    }
    *req = (struct http_request){.conn = c, .fields = fields};
    c->server->stats.busy--;
    if (on_done != NULL) {
        on_done(user, how);
    }
}

void http_request_refuse(struct http_request *req, int status, const char *why)
{
    struct http_conn *c = req->conn;

    if (req->reply != REPLY_DUE) {
        http_conn_doom(c);
        return;
    }
    c->server->stats.refused++;
    http_conn_end_after(c, AFTER_LINGER);
    http_reply_enter(req, REPLY_REFUSED);
    http_body_use(req, BODY_DISCARD);
    http_reply_refusal(c, req, status, why);
}

/* ---- what a handler can ask ---- */

enum http_method http_method(const struct http_request *req)
{
    return head_of(req)->method;
}

const char *http_path(const struct http_request *req)
{
    return req->conn->block->target.path;
}

const char *http_target(const struct http_request *req)
{
    return http_head_target(head_of(req));
}

const struct http_peer *http_peer(const struct http_request *req)
{
    return &req->conn->peer;
}

uint64_t http_client(const struct http_request *req)
{
    const struct http_peer_entry *entry = req->conn->entry;

    return entry != NULL ? http_peer_number(entry->key) : 0;
}

const char *http_header(const struct http_request *req, const char *name)
{
    return http_head_find(head_of(req), name);
}

bool http_header_next(const struct http_request *req, size_t *at, const char **ret_name,
                      const char **ret_value)
{
    const struct http_head *h = head_of(req);

    if (*at >= h->nfields) {
        return false;
    }
    *ret_name = h->base + h->fields[*at].name;
    *ret_value = h->base + h->fields[*at].value;
    (*at)++;
    return true;
}

bool http_query_next(const struct http_request *req, size_t *at, const char **ret_name,
                     const char **ret_value)
{
    return http_target_next(&req->conn->block->target, at, ret_name, ret_value);
}

bool http_content_is(const struct http_request *req, const char *type)
{
    const char *value = http_head_known(head_of(req), HTTP_CONTENT_TYPE);

    return value != NULL && http_type_is(value, type);
}

bool http_has_body(const struct http_request *req)
{
    return head_of(req)->is_chunked || head_of(req)->content_length > 0;
}

uint64_t http_content_length(const struct http_request *req)
{
    return head_of(req)->is_chunked ? HTTP_LENGTH_UNKNOWN : head_of(req)->content_length;
}

void http_request_own(struct http_request *req, void *user,
                      void (*on_done)(void *user, enum http_end how))
{
    req->user = user;
    req->on_done = on_done;
    http_conn_wake(req->conn);
}

void *http_user(const struct http_request *req)
{
    return req->user;
}

void http_on_hangup(struct http_request *req,
                    void (*on_hangup)(void *user, struct http_request *req))
{
    req->on_hangup = on_hangup;
    http_conn_wake(req->conn);
}

void http_abort(struct http_request *req)
{
    if (http_conn_is_gone(req->conn)) {
        http_reply_close(req);
    }
    http_conn_doom(req->conn);
}
