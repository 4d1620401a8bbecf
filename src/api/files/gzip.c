/* SPDX-License-Identifier: Apache-2.0 */
/* gzip as a stream; see gzip.h. */
#include "api/files/gzip.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <zlib.h>

#define BUFFER_SIZE 32768
#define GZIP_WINDOW (MAX_WBITS + 16) /* the gzip format, not zlib's own */
#define MEMORY_LEVEL 8
#define LEVEL 1 /* other requests wait while this one compresses */

struct gzip_writer {
    z_stream z;
    int (*write)(void *user, const void *data, size_t n);
    void *user;
    unsigned char out[BUFFER_SIZE];
};

struct gzip_writer *gzip_writer_new(int (*write)(void *user, const void *data, size_t n),
                                    void *user)
{
    struct gzip_writer *g = calloc(1, sizeof(*g));

    if (g == NULL || deflateInit2(&g->z, LEVEL, Z_DEFLATED, GZIP_WINDOW, MEMORY_LEVEL,
                                  Z_DEFAULT_STRATEGY) != Z_OK) {
        free(g);
        return NULL;
    }
    g->write = write;
    g->user = user;
    return g;
}

void gzip_writer_free(struct gzip_writer *g)
{
    if (g != NULL) {
        (void)deflateEnd(&g->z);
        free(g);
    }
}

static int deflate_all(struct gzip_writer *g, int flush)
{
    do {
        g->z.next_out = g->out;
        g->z.avail_out = sizeof(g->out);
        (void)deflate(&g->z, flush); /* fails only when it is used wrongly */
        size_t n = sizeof(g->out) - g->z.avail_out;
        int r = n > 0 ? g->write(g->user, g->out, n) : 0;
        if (r != 0) {
            return r;
        }
    } while (g->z.avail_out == 0);
    return 0;
}

int gzip_write(struct gzip_writer *g, const void *data, size_t n)
{
    g->z.next_in = (z_const Bytef *)data;
    g->z.avail_in = (uInt)n; /* pieces of an archive are small */
    return deflate_all(g, Z_NO_FLUSH);
}

int gzip_write_end(struct gzip_writer *g)
{
    g->z.avail_in = 0;
    return deflate_all(g, Z_FINISH);
}

struct gzip_reader {
    z_stream z;
    ssize_t (*read)(void *user, void *buf, size_t size);
    void *user;
    bool is_in_member; /* a member has begun and not ended */
    bool has_member;
    /* the last output did not fit whole, so there may be more without more input */
    bool has_pending;
    unsigned char in[BUFFER_SIZE];
};

struct gzip_reader *gzip_reader_new(ssize_t (*read)(void *user, void *buf, size_t size), void *user)
{
    struct gzip_reader *g = calloc(1, sizeof(*g));

    if (g == NULL || inflateInit2(&g->z, GZIP_WINDOW) != Z_OK) {
        free(g);
        return NULL;
    }
    g->read = read;
    g->user = user;
    return g;
}

void gzip_reader_free(struct gzip_reader *g)
{
    if (g != NULL) {
        (void)inflateEnd(&g->z);
        free(g);
    }
}

/* 1: there are bytes to inflate; 0: there are no more; negative as read() says. */
static ssize_t fill(struct gzip_reader *g)
{
    if (g->z.avail_in > 0) {
        return 1;
    }
    ssize_t n = g->read(g->user, g->in, sizeof(g->in));
    if (n <= 0) {
        return n;
    }
    g->z.next_in = g->in;
    g->z.avail_in = (uInt)n;
    return 1;
}

ssize_t gzip_read(struct gzip_reader *g, void *buf, size_t size)
{
    g->z.next_out = buf;
    g->z.avail_out = (uInt)size;
    for (;;) {
        ssize_t more = g->has_pending ? 1 : fill(g);
        if (more <= 0) {
            bool is_whole = g->has_member && !g->is_in_member;
            return more < 0 ? more : is_whole ? 0 : -EBADMSG;
        }
        if (!g->is_in_member) { /* several members one behind the other are one stream */
            (void)inflateReset(&g->z);
            g->is_in_member = true;
            g->has_member = true;
        }
        int r = inflate(&g->z, Z_NO_FLUSH);
        if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR) {
            return -EBADMSG;
        }
        g->is_in_member = r != Z_STREAM_END;
        g->has_pending = g->is_in_member && g->z.avail_out == 0;
        if (g->z.avail_out < size) {
            return (ssize_t)(size - g->z.avail_out);
        }
    }
}
