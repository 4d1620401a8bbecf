/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gzip as a stream (RFC 1952), in either direction, through buffers of fixed size. Callbacks may
 * wait. The reader is fed by strangers: it never holds more than its buffers, however much the
 * data grow; bounding the sum is the caller's.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

struct gzip_writer;
struct gzip_reader;

/* write: 0 to go on. NULL when memory is gone. */
struct gzip_writer *gzip_writer_new(int (*write)(void *user, const void *data, size_t n),
                                    void *user);
void gzip_writer_free(struct gzip_writer *g);                      /* NULL is fine */
int gzip_write(struct gzip_writer *g, const void *data, size_t n); /* 0, or what write() returned */
int gzip_write_end(struct gzip_writer *g);                         /* the last bytes */

/* read: bytes, 0 at the end, or negative. */
struct gzip_reader *gzip_reader_new(ssize_t (*read)(void *user, void *buf, size_t size),
                                    void *user);
void gzip_reader_free(struct gzip_reader *g); /* NULL is fine */
/*
 * Bytes, 0 at the end, what read() returned when it failed, or -EBADMSG: not gzip, damaged or cut
 * off.
 */
ssize_t gzip_read(struct gzip_reader *g, void *buf, size_t size);
