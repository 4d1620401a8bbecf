/* SPDX-License-Identifier: Apache-2.0 */
/* Frames to and from the runner; see frame.h. The parsing half reads hostile bytes. */
#include "wire/frame.h"

#include <errno.h>
#include <string.h>

#define FIELD_HEAD 8 /* key and length, four bytes each */

int frame_begin(struct buf *b, enum frame_type type, const uint8_t token[FRAME_TOKEN_SIZE])
{
    struct frame_head head = {.type = type};

    if (token != NULL) {
        memcpy(head.token, token, sizeof(head.token));
    }
    b->len = 0;
    return buf_add(b, &head, sizeof(head));
}

int frame_add(struct buf *b, enum frame_key key, const void *data, size_t n)
{
    uint32_t head[2] = {key, (uint32_t)n};

    if (n > UINT32_MAX) {
        return -EMSGSIZE;
    }
    int r = buf_reserve(b, n + FIELD_HEAD);
    if (r < 0) {
        return r;
    }
    (void)buf_add(b, head, sizeof(head));
    return buf_add(b, data, n);
}

int frame_add_str(struct buf *b, enum frame_key key, const char *s)
{
    return frame_add(b, key, s, strlen(s));
}

int frame_add_u32(struct buf *b, enum frame_key key, uint32_t v)
{
    return frame_add(b, key, &v, sizeof(v));
}

int frame_add_u64(struct buf *b, enum frame_key key, uint64_t v)
{
    return frame_add(b, key, &v, sizeof(v));
}

int frame_end(struct buf *b)
{
    size_t len = b->len - sizeof(struct frame_head);

    if (len > UINT32_MAX) {
        return -EMSGSIZE;
    }
    uint32_t len32 = (uint32_t)len;
    memcpy(b->data + offsetof(struct frame_head, len), &len32, sizeof(len32));
    return 0;
}

int frame_parse_head(const void *data, size_t n, size_t max, struct frame_head *ret)
{
    struct frame_head head;

    if (n < sizeof(head)) {
        return 0;
    }
    memcpy(&head, data, sizeof(head));
    if (head.type == 0 || head.type > FRAME_LAST) {
        return -EBADMSG;
    }
    if (head.len > max) {
        return -EMSGSIZE;
    }
    *ret = head;
    return 1;
}

int frame_next(const char *body, size_t len, size_t *at, struct frame_field *ret)
{
    uint32_t head[2];

    if (*at == len) {
        return 0;
    }
    if (*at > len || len - *at < FIELD_HEAD) {
        return -EBADMSG;
    }
    memcpy(head, body + *at, sizeof(head));
    if (head[1] > len - *at - FIELD_HEAD) {
        return -EBADMSG;
    }
    *ret = (struct frame_field){
        .key = head[0],
        .len = head[1],
        .data = body + *at + FIELD_HEAD,
    };
    *at += FIELD_HEAD + (size_t)head[1];
    return 1;
}

int frame_field_u32(const struct frame_field *f, uint32_t *ret)
{
    if (f->len != sizeof(*ret)) {
        return -EBADMSG;
    }
    memcpy(ret, f->data, sizeof(*ret));
    return 0;
}

int frame_field_u64(const struct frame_field *f, uint64_t *ret)
{
    if (f->len != sizeof(*ret)) {
        return -EBADMSG;
    }
    memcpy(ret, f->data, sizeof(*ret));
    return 0;
}
