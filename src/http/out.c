/* SPDX-License-Identifier: Apache-2.0 */
/* Output queue; see out.h. */
#include "http/out.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/attr.h"

#define POOL_MOST 256        /* chunks kept: 4 MB */
#define VECTORS 16           /* chunks per system call */
#define FLUSH_BUDGET 1048576 /* bytes per turn, so that one fast reader does not starve others */

enum kind {
    KIND_COPY, /* bytes[], pooled */
    KIND_BORROWED,
    KIND_TAKEN,
};

struct http_chunk {
    struct http_chunk *next;
    enum kind kind;
    char *data;
    size_t at; /* data[at] to data[end] are still to be sent */
    size_t end;
    char bytes[]; /* HTTP_CHUNK_BYTES of them for KIND_COPY */
};

static void append(struct http_out *out, struct http_chunk *c)
{
    c->next = NULL;
    if (out->last == NULL) {
        out->first = c;
    } else {
        out->last->next = c;
    }
    out->last = c;
}

static struct http_chunk *chunk_new(struct http_pool *pool)
{
    struct http_chunk *c = pool->free;

    if (c != NULL) {
        pool->free = c->next;
        pool->n--;
    } else {
        c = malloc(sizeof(*c) + HTTP_CHUNK_BYTES);
        if (c == NULL) {
            return NULL;
        }
    }
    c->kind = KIND_COPY;
    c->data = c->bytes;
    c->at = 0;
    c->end = 0;
    return c;
}

static void chunk_free(struct http_chunk *c, struct http_pool *pool)
{
    if (c->kind == KIND_COPY && pool->n < POOL_MOST) {
        c->next = pool->free;
        pool->free = c;
        pool->n++;
        return;
    }
    if (c->kind == KIND_TAKEN) {
        free(c->data);
    }
    free(c);
}

static void drop_first(struct http_out *out, struct http_pool *pool)
{
    struct http_chunk *c = out->first;

    out->first = c->next;
    if (out->first == NULL) {
        out->last = NULL;
    }
    chunk_free(c, pool);
}

char *http_out_reserve(struct http_out *out, struct http_pool *pool, size_t n)
{
    struct http_chunk *c = out->last;

    if (c == NULL || c->kind != KIND_COPY || HTTP_CHUNK_BYTES - c->end < n) {
        c = chunk_new(pool);
        if (c == NULL) {
            return NULL;
        }
        append(out, c);
    }
    return c->bytes + c->end;
}

void http_out_commit(struct http_out *out, size_t n)
{
    out->last->end += n;
    out->queued += n;
}

static int add_chunk(struct http_out *out, const struct http_chunk *proto)
{
    struct http_chunk *c = malloc(sizeof(*c));

    if (c == NULL) {
        return -ENOMEM;
    }
    *c = *proto;
    append(out, c);
    return 0;
}

int http_out_borrow(struct http_out *out, const void *data, size_t len)
{
    struct http_chunk proto = {.kind = KIND_BORROWED, .data = (char *)data, .end = len};

    if (len == 0) {
        return 0;
    }
    int r = add_chunk(out, &proto);
    out->queued += r == 0 ? len : 0;
    return r;
}

int http_out_take(struct http_out *out, char *data, size_t len)
{
    struct http_chunk proto = {.kind = KIND_TAKEN, .data = data, .end = len};

    int r = len == 0 ? -ENODATA : add_chunk(out, &proto);
    if (r < 0) {
        free(data);
        return r == -ENODATA ? 0 : r;
    }
    out->queued += len;
    return 0;
}

int http_out_copy(struct http_out *out, struct http_pool *pool, const void *data, size_t len)
{
    if (len > HTTP_CHUNK_BYTES) { /* one large piece is cheaper than many small ones */
        char *copy = malloc(len);
        if (copy == NULL) {
            return -ENOMEM;
        }
        memcpy(copy, data, len);
        return http_out_take(out, copy, len);
    }
    char *room = http_out_reserve(out, pool, len);
    if (room == NULL) {
        return -ENOMEM;
    }
    if (len > 0) {
        memcpy(room, data, len);
    }
    http_out_commit(out, len);
    return 0;
}

static void forget_sent(struct http_out *out, struct http_pool *pool, size_t n)
{
    out->queued -= n;
    while (out->first != NULL) {
        struct http_chunk *c = out->first;
        size_t step = MIN(n, c->end - c->at);
        c->at += step;
        n -= step;
        if (c->at < c->end) {
            return;
        }
        drop_first(out, pool);
    }
}

/* One system call. Returns 0 if it sent all bytes, 1 if not, or -errno. */
static int flush_some(struct http_out *out, struct http_pool *pool, int sock, uint64_t *sent)
{
    struct iovec vectors[VECTORS];
    struct http_chunk *c = out->first;
    size_t n = 0;
    size_t total = 0;

    for (; c != NULL && n < VECTORS; c = c->next) {
        size_t len = c->end - c->at;
        vectors[n++] = (struct iovec){c->data + c->at, len};
        total += len;
    }
    struct msghdr msg = {.msg_iov = vectors, .msg_iovlen = n};
    ssize_t r = sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT | (c != NULL ? MSG_MORE : 0));
    if (r < 0) {
        return errno == EAGAIN || errno == EINTR ? 1 : -errno;
    }
    forget_sent(out, pool, (size_t)r);
    *sent += (uint64_t)r;
    return (size_t)r < total ? 1 : 0;
}

int http_out_flush(struct http_out *out, struct http_pool *pool, int sock, uint64_t *ret_sent)
{
    *ret_sent = 0;
    while (out->first != NULL) {
        if (*ret_sent >= FLUSH_BUDGET) {
            return 1;
        }
        int r = flush_some(out, pool, sock, ret_sent);
        if (r != 0) {
            return r;
        }
    }
    return 0;
}

void http_out_release(struct http_out *out, struct http_pool *pool)
{
    while (out->first != NULL) {
        drop_first(out, pool);
    }
    out->queued = 0;
}

void http_pool_release(struct http_pool *pool)
{
    while (pool->free != NULL) {
        struct http_chunk *c = pool->free;
        pool->free = c->next;
        free(c);
    }
    pool->n = 0;
}
