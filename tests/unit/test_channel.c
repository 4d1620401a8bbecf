/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of core/channel.h: an end that takes nothing, frames that are begun and not finished. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/units.h"
#include "core/channel.h"
#include "tap.h"

TEST(an_end_that_takes_nothing_is_given_up)
{
    static char code[1 << 20];
    AUTO_BUF struct buf frame = BUF_INIT(sizeof(code));
    struct channel c;
    struct err e = {0};
    int pair[2];

    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    channel_init(&c, pair[0]);
    CHECK_INT(c.patience_ms, 30000);
    c.patience_ms = 50;
    CHECK_INT(buf_add(&frame, code, sizeof(code)), 0); /* more than the socket takes */
    CHECK_INT(channel_send(&c, &frame, NULL, 0, &e), -1);
    CHECK_INT(e.code, ERR_TIMEOUT);
    CHECK_STR(e.msg, "the box does not take its code");
    CHECK(frame.len > 0);
    channel_release(&c);
    fd_close(&pair[1]);
}

/* A channel whose box has that share; the box's end is *ret_box. */
static void open_channel(struct channel *c, struct budget_share *share, int *ret_box)
{
    int pair[2];

    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    channel_init(c, pair[0]);
    c->share = share;
    *ret_box = pair[1];
}

static void never(void *user)
{
    (void)user;
    CHECK(false);
}

/* Sends bytes of a body while they are taken: what channel_frame() says in the end. */
static int send_body(struct channel *c, int box, size_t n)
{
    static const char bytes[32768];
    struct frame_head head;
    const char *body;
    int r = 0;

    while (n > 0 && r == 0) {
        ssize_t sent = send(box, bytes, MIN(n, sizeof(bytes)), MSG_NOSIGNAL);
        CHECK(sent > 0);
        n -= (size_t)sent;
        r = channel_frame(c, &head, &body);
    }
    if (r == 1) {
        channel_drop(c, &head);
    }
    return r;
}

TEST(an_announced_length_holds_nothing)
{
    const struct frame_head head = {.type = FRAME_DONE, .len = FRAME_FROM_BOX_MAX};
    struct budget b = {0};
    struct budget_share share = {0};
    struct channel c;
    int box;

    budget_open(&b, &share, 64 * MIB, never, NULL);
    open_channel(&c, &share, &box);
    CHECK_INT(write(box, &head, sizeof(head)), sizeof(head));
    CHECK_INT(send_body(&c, box, 100000), 0);
    CHECK_INT(share.held, 100000 + sizeof(head));
    CHECK(c.inbox.cap <= 512 * KIB);
    channel_release(&c);
    CHECK_INT(share.held, 0);
    budget_close(&share);
    fd_close(&box);
}

TEST(a_box_has_no_more_held_than_its_share)
{
    const struct frame_head head = {.type = FRAME_DONE, .len = FRAME_FROM_BOX_MAX};
    struct budget b = {0};
    struct budget_share share = {0};
    struct channel c;
    int box;

    budget_open(&b, &share, 16 * MIB, never, NULL);
    open_channel(&c, &share, &box);
    CHECK_INT(write(box, &head, sizeof(head)), sizeof(head));
    CHECK_INT(send_body(&c, box, 23 * MIB), -EDQUOT);
    CHECK_INT(share.held, 0); /* at once, not when somebody closes the channel */
    CHECK(c.inbox.data == NULL);
    channel_release(&c);
    budget_close(&share);
    fd_close(&box);
}

/* Else a frame that is long gone would be held for as long as the session lives. */
TEST(a_large_frame_is_given_back_when_it_is_dropped)
{
    const struct frame_head head = {.type = FRAME_DISPLAY, .len = 4 * MIB};
    const struct frame_head next = {.type = FRAME_DISPLAY, .len = 1000};
    struct budget b = {0};
    struct budget_share share = {0};
    struct channel c;
    int box;

    budget_open(&b, &share, 64 * MIB, never, NULL);
    open_channel(&c, &share, &box);
    CHECK_INT(write(box, &head, sizeof(head)), sizeof(head));
    CHECK_INT(send_body(&c, box, 4 * MIB - 10), 0);
    CHECK(share.held > 4 * MIB - 100);
    char rest[10 + sizeof(next)] = {0}; /* the end of one and the beginning of another */
    memcpy(rest + 10, &next, sizeof(next));
    CHECK_INT(write(box, rest, sizeof(rest)), sizeof(rest));
    CHECK_INT(send_body(&c, box, 1), 1);
    CHECK_INT(share.held, sizeof(next) + 1);
    CHECK(c.inbox.cap <= 128 * KIB);
    CHECK_INT(send_body(&c, box, 999), 1);
    channel_release(&c);
    CHECK_INT(share.held, 0);
    budget_close(&share);
    fd_close(&box);
}

TEST(a_frame_that_was_begun_must_end_in_time)
{
    struct frame_head head = {.type = FRAME_DONE, .len = 1000};
    const char *body;
    struct channel c;
    int box;

    open_channel(&c, NULL, &box);
    CHECK_INT(c.frame_ms, 30000);
    c.frame_ms = 40;
    CHECK_INT(channel_frame(&c, &head, &body), 0);
    CHECK(channel_due_ms(&c) == UINT64_MAX); /* nothing was begun */
    head = (struct frame_head){.type = FRAME_DONE, .len = 1000};
    CHECK_INT(write(box, &head, sizeof(head)), sizeof(head));
    uint64_t began = clock_ms();
    int r;
    while ((r = channel_frame(&c, &head, &body)) == 0) { /* a byte now and then is no excuse */
        CHECK(channel_due_ms(&c) <= began + 45);
        CHECK(clock_ms() < began + 5000);
        CHECK_INT(write(box, "x", 1), 1);
        (void)usleep(5000);
    }
    CHECK_INT(r, -ETIME);
    CHECK(channel_is_overdue(&c));
    channel_release(&c);
    fd_close(&box);
}

TEST(what_is_left_behind_the_last_frame_must_end_in_time_too)
{
    const struct frame_head whole = {.type = FRAME_DONE, .len = 0};
    const struct frame_head part = {.type = FRAME_DONE, .len = 1000};
    struct frame_head head;
    const char *body;
    struct channel c;
    int box;

    open_channel(&c, NULL, &box);
    c.frame_ms = 1;
    CHECK_INT(write(box, &whole, sizeof(whole)), sizeof(whole));
    CHECK_INT(write(box, &part, sizeof(part)), sizeof(part));
    CHECK_INT(channel_frame(&c, &head, &body), 1);
    CHECK(!channel_is_overdue(&c));
    channel_drop(&c, &head); /* the cell is over: nobody reads on */
    (void)usleep(5000);
    CHECK(channel_is_overdue(&c));
    channel_release(&c);
    fd_close(&box);
}
