/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of core/channel.h: sending to an end that takes nothing. */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
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
