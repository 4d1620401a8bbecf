/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streaming parser of multipart/form-data (RFC 7578). Parts go to callbacks as they come, so an
 * upload of any size needs fixed memory. Strict: CR LF only, no preamble, no epilogue, every part
 * has a name.
 *
 * Names and file names come from the client: they are valid UTF-8 without control characters, and
 * nothing else is promised. Pure; works at any split of the input.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define HTTP_BOUNDARY_MAX 70 /* RFC 2046, 5.1.1 */
#define HTTP_PART_HEAD_MAX 4096
#define HTTP_PART_TEXT_MAX 1024

struct http_part {
    char name[HTTP_PART_TEXT_MAX];
    char filename[HTTP_PART_TEXT_MAX]; /* "" if there is none */
    bool has_filename;
    char type[128]; /* as sent; "text/plain" if there is none */
};

struct http_multipart_calls {
    /* Each returns 0 to go on, or -1 to stop: the feed then returns -1 as well. */
    int (*on_part)(void *user, const struct http_part *part);
    int (*on_data)(void *user, const char *data, size_t len);
    int (*on_part_end)(void *user);
};

struct http_multipart {
    const struct http_multipart_calls *calls;
    void *user;
    const char *why; /* after -1 by the parser: one short sentence; NULL if a callback stopped it */
    unsigned parts_left;
    int state;
    size_t matched;       /* bytes of the delimiter that the input ends with so far */
    size_t delimiter_len; /* CR LF "--" boundary */
    size_t head_len;
    char delimiter[HTTP_BOUNDARY_MAX + 5];
    char head[HTTP_PART_HEAD_MAX + 1];
    struct http_part part;
};

/* content_type is the request's field. -1 and why if it is not form data with a proper boundary. */
int http_multipart_init(struct http_multipart *m, const char *content_type, unsigned max_parts,
                        const struct http_multipart_calls *calls, void *user);
int http_multipart_feed(struct http_multipart *m, const char *data, size_t len);
/* At the end of the body: -1 and why if the closing delimiter is missing. */
int http_multipart_finish(struct http_multipart *m);
