/* SPDX-License-Identifier: Apache-2.0 */
/* Output queue; see out.h. */
#include "http/out.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/attr.h"
#include "base/fd.h"

#define POOL_MOST 256        /* chunks kept: 4 MB */
#define VECTORS 16           /* chunks per system call */
#define FLUSH_BUDGET 1048576 /* bytes per turn, so that one fast reader does not starve the rest */
#define FILE_SLICE 262144    /* bytes per sendfile(): bounds how long it can hold up the loop */

enum kind {
    KIND_COPY, /* bytes[], pooled */
    KIND_BORROWED,
    KIND_TAKEN,
    KIND_FILE,
};

struct http_chunk {
    struct http_chunk *next;
    enum kind kind;
    int fd;
    char *data;
    uint64_t at; /* data[at] to data[end] are still to be sent; of a file: offsets in it */
    uint64_t end;
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
    c->fd = -1;
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
    fd_close(&c->fd);
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
    struct http_chunk proto = {.kind = KIND_BORROWED, .fd = -1, .data = (char *)data, .end = len};

    if (len == 0) {
        return 0;
    }
    int r = add_chunk(out, &proto);
    out->queued += r == 0 ? len : 0;
    return r;
}

int http_out_take(struct http_out *out, char *data, size_t len)
{
    struct http_chunk proto = {.kind = KIND_TAKEN, .fd = -1, .data = data, .end = len};

    int r = len == 0 ? -ENODATA : add_chunk(out, &proto);
    if (r < 0) {
        free(data);
        return r == -ENODATA ? 0 : r;
    }
    out->queued += len;
    return 0;
}

int http_out_file(struct http_out *out, int fd, uint64_t at, uint64_t len)
{
    struct http_chunk proto = {.kind = KIND_FILE, .fd = fd, .at = at, .end = at + len};

    int r = len == 0 ? -ENODATA : add_chunk(out, &proto);
    if (r < 0) {
        fd_close(&fd);
        return r == -ENODATA ? 0 : r;
    }
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
    while (out->first != NULL && out->first->kind != KIND_FILE) {
        struct http_chunk *c = out->first;
        size_t step = (size_t)MIN((uint64_t)n, c->end - c->at);
        c->at += step;
        n -= step;
        if (c->at < c->end) {
            return;
        }
        drop_first(out, pool);
    }
}

/* Sends the bytes in front of the first file. Returns 0 if all went, 1 if not, -errno. */
static int flush_bytes(struct http_out *out, struct http_pool *pool, int sock, uint64_t *sent)
{
    struct iovec vectors[VECTORS];
    struct http_chunk *c = out->first;
    size_t n = 0;
    size_t total = 0;

    for (; c != NULL && c->kind != KIND_FILE && n < VECTORS; c = c->next) {
        size_t len = (size_t)(c->end - c->at);
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

static int flush_file(struct http_out *out, struct http_pool *pool, int sock, uint64_t *sent)
{
    struct http_chunk *c = out->first;
    off_t at = (off_t)c->at;
    size_t slice = (size_t)MIN(c->end - c->at, (uint64_t)FILE_SLICE);

    /* Ask for the next slice now, so that it is in memory when its turn comes. */
    (void)posix_fadvise(c->fd, at + (off_t)slice, FILE_SLICE, POSIX_FADV_WILLNEED);
    ssize_t r = sendfile(sock, c->fd, &at, slice);
    if (r < 0) {
        return errno == EAGAIN || errno == EINTR ? 1 : -errno;
    }
    if (r == 0) {
        return -EIO; /* it was cut while we sent it: the length that we promised cannot be kept */
    }
    c->at += (uint64_t)r;
    *sent += (uint64_t)r;
    if (c->at == c->end) {
        drop_first(out, pool);
        return 0;
    }
    return (size_t)r < slice ? 1 : 0;
}

int http_out_flush(struct http_out *out, struct http_pool *pool, int sock, uint64_t *ret_sent)
{
    *ret_sent = 0;
    while (out->first != NULL) {
        if (*ret_sent >= FLUSH_BUDGET) {
            return 1;
        }
        int r = out->first->kind == KIND_FILE ? flush_file(out, pool, sock, ret_sent)
                                              : flush_bytes(out, pool, sock, ret_sent);
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
