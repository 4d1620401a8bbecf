/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of input. A connection has one only while there are bytes to keep, so that idle
 * connections cost little. The pool hands out the block used last, which is still in the
 * processor's cache.
 */
#include <string.h>

#include "base/attr.h"
#include "http/conn.h"

struct block *http_block_take(struct http_server *s)
{
    struct block *b = s->blocks;

    if (b != NULL) {
        s->blocks = b->next;
        s->nblocks--;
    } else {
        b = malloc(sizeof(*b));
        if (b == NULL) {
            return NULL;
        }
    }
    b->start = 0;
    b->end = 0;
    http_block_start_head(b);
    return b;
}

void http_block_give(struct http_conn *c)
{
    struct http_server *s = c->server;
    struct block *b = TAKE_PTR(c->block);

    if (b == NULL) {
        return;
    }
    if (s->nblocks >= BLOCK_POOL_MOST) {
        free(b);
        return;
    }
    b->next = s->blocks;
    s->blocks = b;
    s->nblocks++;
}

static void move_to_front(struct block *b)
{
    memmove(b->data, b->data + b->start, b->end - b->start);
    b->end -= b->start;
    b->start = 0;
}

void http_block_start_head(struct block *b)
{
    b->floor = 0;
    memset(&b->head, 0, offsetof(struct http_head, fields));
}

bool http_block_make_room(struct block *b, bool is_head)
{
    if (b->start == b->end) {
        b->start = b->floor;
        b->end = b->floor;
    } else if (is_head && b->start > 0 && BLOCK_BYTES - b->start < HTTP_HEAD_MAX) {
        move_to_front(b);
    }
    return b->end < BLOCK_BYTES;
}

void http_block_pin_head(struct block *b)
{
    if (b->start > 0 && BLOCK_BYTES - b->start - b->head.length < BLOCK_BYTES / 2) {
        move_to_front(b);
        b->head.base = b->data;
    }
    b->start += b->head.length;
    b->floor = b->start;
}
