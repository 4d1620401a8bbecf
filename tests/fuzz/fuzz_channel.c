/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target of core/channel.h: bytes of a hostile box through a real socket, in two portions.
 *
 * The first two bytes say where they are divided. However they are divided, the same frames must
 * come out as when they are read in one piece.
 */
#include "core/channel.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "fuzz.h"

#define MOST 16384 /* fits into a socket */

struct reading {
    const char *data; /* not yet read */
    size_t left;
};

/* Compares what the channel has with the bytes that were sent. 1: it may go on. */
static int take_all(struct channel *c, struct reading *r)
{
    struct frame_head head;
    struct frame_head want;
    const char *body;
    int got;

    while ((got = channel_frame(c, &head, &body)) > 0) {
        FUZZ_CHECK(frame_parse_head(r->data, r->left, FRAME_FROM_BOX_MAX, &want) == 1);
        FUZZ_CHECK(memcmp(&head, &want, sizeof(head)) == 0);
        FUZZ_CHECK(r->left - sizeof(head) >= head.len);
        FUZZ_CHECK(memcmp(body, r->data + sizeof(head), head.len) == 0);
        channel_drop(c, &head);
        r->data += sizeof(head) + head.len;
        r->left -= sizeof(head) + head.len;
    }
    return got == 0;
}

static void send_part(int fd, const char *data, size_t n)
{
    FUZZ_CHECK(n == 0 || send(fd, data, n, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct channel c;
    uint16_t cut;
    int pair[2];

    if (size < sizeof(cut) || size > MOST) {
        return 0;
    }
    memcpy(&cut, data, sizeof(cut));
    struct reading r = {.data = (const char *)data + sizeof(cut), .left = size - sizeof(cut)};
    const char *all = r.data;
    size_t first = MIN((size_t)cut, r.left);
    size_t second = r.left - first;

    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    channel_init(&c, pair[0]);
    send_part(pair[1], all, first);
    int open = take_all(&c, &r);
    if (open) {
        send_part(pair[1], all + first, second);
        open = take_all(&c, &r);
    }
    close(pair[1]);
    if (open) {
        FUZZ_CHECK(take_all(&c, &r) == 0); /* the end is told */
        struct frame_head head;
        int whole = frame_parse_head(r.data, r.left, FRAME_FROM_BOX_MAX, &head);
        FUZZ_CHECK(whole <= 0 || r.left - sizeof(head) < head.len); /* and nothing was left out */
    }
    channel_release(&c);
    return 0;
}
