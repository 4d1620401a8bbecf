/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The output queue of a connection: bytes in order, sent by as few system calls as possible. Small
 * pieces are packed into pooled chunks, so an ordinary answer needs no allocation. Knows sockets,
 * nothing of HTTP or the loop.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_CHUNK_BYTES 16384

struct http_chunk;

/* Chunks at rest, shared by all connections of a server. Zeroed is empty. */
struct http_pool {
    struct http_chunk *free;
    size_t n;
};

struct http_out {
    struct http_chunk *first;
    struct http_chunk *last;
    size_t queued; /* bytes */
};

/* These return 0, or -ENOMEM with the queue as it was. */
int http_out_copy(struct http_out *out, struct http_pool *pool, const void *data, size_t len);
int http_out_borrow(struct http_out *out, const void *data, size_t len); /* lives for ever */
int http_out_take(struct http_out *out, char *data, size_t len); /* free()d, also on error */

/* Room for n <= HTTP_CHUNK_BYTES bytes in one piece, or NULL; then how many were written. */
char *http_out_reserve(struct http_out *out, struct http_pool *pool, size_t n);
void http_out_commit(struct http_out *out, size_t n);

/*
 * Sends as much as the socket takes, but about 1 MB at most. 0 when the queue is empty, 1 when
 * something is left, or -errno. *ret_sent is always written.
 */
int http_out_flush(struct http_out *out, struct http_pool *pool, int sock, uint64_t *ret_sent);

void http_out_release(struct http_out *out, struct http_pool *pool);
void http_pool_release(struct http_pool *pool);
