/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies that a handler reads piece by piece: raw, or as parts of a form; see call.h.
 *
 * What the connection brings is kept in a small buffer; when that is full the connection is not
 * read any more. The parser of forms calls back, a handler asks: pieces that the parser has found
 * wait in a list in between, at most one read long.
 */
#include <errno.h>
#include <string.h>

#include "api/call/call_impl.h"
#include "base/str.h"

#define KEEP_MAX ((size_t)128 << 10)
#define KEEP_HIGH ((size_t)64 << 10)
#define PARTS_MAX 64
#define FEED_SIZE ((size_t)16 << 10)
#define PIECE_SIZE ((size_t)4 << 10) /* at least, of data */

struct call_piece {
    struct call_piece *next;
    enum { PIECE_PART, PIECE_DATA } kind;
    size_t at;
    size_t len;
    size_t size;          /* of bytes[] */
    const char *filename; /* in bytes[]; NULL: none */
    char bytes[];         /* data; of a part: its name */
};

/* ---- raw ---- */

static void on_data(void *user, struct http_request *req, const char *data, size_t len)
{
    struct api_call *call = user;

    call->body_got += len;
    if (call->body_got > call->body_max || buf_add(&call->in, data, len) < 0) {
        call->is_too_large = true;
        http_body_pause(req);
    } else if (call->in.len >= KEEP_HIGH) {
        http_body_pause(req);
    }
    call_wake(call);
}

static void on_end(void *user, struct http_request *req)
{
    struct api_call *call = user;

    call->is_body_over = true;
    call_wake(call);
}

/* Waits for bytes. 1: there are some; 0: the body is over; -errno. */
static int wait_for_body(struct api_call *call)
{
    /*
     * The limit is kept here and not by the server, which would not tell us in the call's own
     * words.
     */
    static const struct http_sink sink = {.max = UINT64_MAX, .on_data = on_data, .on_end = on_end};

    if (!call->is_reading && call->req != NULL) {
        call->is_reading = true;
        call->body_max = call_body_max(call);
        call->in = BUF_INIT(KEEP_MAX);
        http_stream_body(call->req, &sink);
    }
    while (call->in.len == 0 && !call->is_body_over && !call->is_too_large && call->req != NULL) {
        call_pause(call);
    }
    if (call->is_too_large) {
        call_refuse(call, 413, "the body is larger than this route accepts");
        return -EMSGSIZE;
    }
    if (call->in.len > 0) {
        return 1;
    }
    return call->is_body_over ? 0 : -ECONNRESET;
}

static ssize_t read_raw(struct api_call *call, char *buf, size_t size)
{
    int r = wait_for_body(call);

    if (r <= 0) {
        return r;
    }
    size_t n = MIN(size, call->in.len);
    memcpy(buf, call->in.data, n);
    buf_consume(&call->in, n);
    if (call->in.len < KEEP_HIGH && call->req != NULL && !call->is_body_over) {
        http_body_resume(call->req);
    }
    return (ssize_t)n;
}

/* ---- forms ---- */

static struct call_piece *piece_add(struct api_call *call, size_t size)
{
    struct call_piece *piece = calloc(1, sizeof(*piece) + size);

    if (piece == NULL) {
        return NULL;
    }
    piece->size = size;
    if (call->last_piece != NULL) {
        call->last_piece->next = piece;
    } else {
        call->first_piece = piece;
    }
    call->last_piece = piece;
    return piece;
}

static struct call_piece *piece_take(struct api_call *call)
{
    struct call_piece *piece = call->first_piece;

    call->first_piece = piece->next;
    if (call->first_piece == NULL) {
        call->last_piece = NULL;
    }
    return piece;
}

static int on_part(void *user, const struct http_part *part)
{
    size_t name = strlen(part->name) + 1;
    size_t filename = strlen(part->filename) + 1;

    struct call_piece *piece = piece_add(user, name + filename);
    if (piece == NULL) {
        return -1;
    }
    piece->kind = PIECE_PART;
    memcpy(piece->bytes, part->name, name);
    memcpy(piece->bytes + name, part->filename, filename);
    piece->filename = part->has_filename ? piece->bytes + name : NULL;
    return 0;
}

/*
 * The parser cuts data at each CR: crumbs are put together, for every piece costs the handler a
 * write.
 */
static int on_part_data(void *user, const char *data, size_t len)
{
    struct api_call *call = user;
    struct call_piece *piece = call->last_piece;

    if (len == 0) {
        return 0;
    }
    if (piece == NULL || piece->kind != PIECE_DATA || piece->size - piece->len < len) {
        piece = piece_add(call, MAX(len, PIECE_SIZE));
    }
    if (piece == NULL) {
        return -1;
    }
    piece->kind = PIECE_DATA;
    memcpy(piece->bytes + piece->len, data, len);
    piece->len += len;
    return 0;
}

static int on_part_end(void *user)
{
    return 0; /* the next part, or the end of the body, reports it too */
}

static int malformed(struct api_call *call)
{
    const char *why = call->parts != NULL ? call->parts->why : NULL;

    call_refuse(call, 400, why != NULL ? why : "the form data cannot be read");
    return -EBADMSG;
}

static int start_parts(struct api_call *call)
{
    static const struct http_multipart_calls calls = {
        .on_part = on_part, .on_data = on_part_data, .on_part_end = on_part_end};
    const char *type = call_header(call, "content-type");

    if (type == NULL) {
        return -ECONNRESET;
    }
    call->parts = calloc(1, sizeof(*call->parts));
    if (call->parts == NULL ||
        http_multipart_init(call->parts, type, PARTS_MAX, &calls, call) < 0) {
        return malformed(call);
    }
    return 0;
}

/* Makes sure that there is a piece. 1, 0 at the end of the body, -errno. */
static int want_piece(struct api_call *call)
{
    char data[FEED_SIZE];

    while (call->first_piece == NULL) {
        ssize_t n = read_raw(call, data, sizeof(data));
        if (n < 0) {
            return (int)n;
        }
        if (n == 0) {
            return http_multipart_finish(call->parts) < 0 ? malformed(call) : 0;
        }
        if (http_multipart_feed(call->parts, data, (size_t)n) < 0) {
            return malformed(call);
        }
    }
    return 1;
}

int call_next_part(struct api_call *call, const char **ret_name, const char **ret_filename)
{
    int r = call->parts == NULL ? start_parts(call) : 0;

    if (r < 0) {
        return r;
    }
    free(TAKE_PTR(call->part));
    while ((r = want_piece(call)) > 0) {
        struct call_piece *piece = piece_take(call);
        if (piece->kind == PIECE_PART) {
            call->part = piece;
            *ret_name = piece->bytes;
            *ret_filename = piece->filename;
            return 1;
        }
        free(piece); /* the handler did not want the rest of that part */
    }
    return r;
}

static ssize_t read_part(struct api_call *call, char *buf, size_t size)
{
    int r = want_piece(call);

    if (r <= 0 || call->first_piece->kind == PIECE_PART) {
        return r < 0 ? r : 0;
    }
    struct call_piece *piece = call->first_piece;
    size_t n = MIN(size, piece->len - piece->at);
    memcpy(buf, piece->bytes + piece->at, n);
    piece->at += n;
    if (piece->at == piece->len) {
        free(piece_take(call));
    }
    return (ssize_t)n;
}

ssize_t call_read(struct api_call *call, char *buf, size_t size)
{
    return call->parts != NULL ? read_part(call, buf, size) : read_raw(call, buf, size);
}

void call_upload_release(struct api_call *call)
{
    while (call->first_piece != NULL) {
        free(piece_take(call));
    }
    free(call->part);
    free(call->parts);
    buf_release(&call->in);
}
