/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of base/fd.h: messages that carry descriptors, and what is cut off or not wanted. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "tap.h"

struct pair {
    int a;
    int b;
};

static struct pair pair_open(int type)
{
    int s[2];

    CHECK_INT(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, s), 0);
    return (struct pair){s[0], s[1]};
}

static void pair_close(struct pair *p)
{
    fd_close(&p->a);
    fd_close(&p->b);
}

static int open_count(void)
{
    int n = 0;

    for (int fd = 0; fd < 256; fd++) {
        n += fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
    }
    return n;
}

TEST(plain_message_arrives_whole)
{
    struct fd_set_msg set = {.n = 0};
    struct pair p = pair_open(SOCK_SEQPACKET);
    char got[8] = "";

    CHECK_INT(fd_send(p.a, "hello", 5, NULL, 0, 0), 5);
    CHECK_INT(fd_recv(p.b, got, sizeof(got), &set, 0), 5);
    CHECK_STR(got, "hello");
    CHECK_INT(set.n, 0);

    CHECK_INT(fd_send(p.a, "again", 5, NULL, 0, 0), 5);
    CHECK_INT(fd_recv(p.b, got, sizeof(got), NULL, 0), 5);
    pair_close(&p);
}

TEST(descriptors_arrive_close_on_exec)
{
    static const size_t counts[] = {1, 2, FD_MESSAGE_MAX};

    for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
        struct fd_set_msg set = {.n = 0};
        struct pair p = pair_open(SOCK_SEQPACKET);
        int fds[FD_MESSAGE_MAX];
        struct stat sent;
        struct stat got;
        char c;

        CASE("%zu descriptors", counts[i]);
        for (size_t k = 0; k < counts[i]; k++) {
            fds[k] = k % 2 == 0 ? p.a : STDIN_FILENO; /* distinct kinds: the order shows */
        }
        int before = open_count();
        CHECK_INT(fd_send(p.a, "x", 1, fds, counts[i], 0), 1);
        CHECK_INT(open_count(), before); /* borrowed: the sender keeps its own */
        CHECK_INT(fd_recv(p.b, &c, 1, &set, 0), 1);
        CHECK_INT(set.n, counts[i]);
        for (size_t k = 0; k < set.n; k++) {
            CHECK_INT(fcntl(set.fds[k], F_GETFD), FD_CLOEXEC);
            CHECK_INT(fstat(fds[k], &sent), 0);
            CHECK_INT(fstat(set.fds[k], &got), 0);
            CHECK(sent.st_ino == got.st_ino && sent.st_dev == got.st_dev);
        }
        fd_set_release(&set);
        CHECK_INT(set.n, 0);
        CHECK_INT(open_count(), before);
        pair_close(&p);
    }
}

TEST(too_many_descriptors_are_refused_before_sending)
{
    struct pair p = pair_open(SOCK_SEQPACKET);
    int fds[FD_MESSAGE_MAX + 1] = {0};
    char c;

    CHECK_INT(fd_send(p.a, "x", 1, fds, FD_MESSAGE_MAX + 1, 0), -EINVAL);
    CHECK_INT(fd_recv(p.b, &c, 1, NULL, MSG_DONTWAIT), -EAGAIN);
    pair_close(&p);
}

TEST(cut_data_is_an_error_and_closes_what_came)
{
    struct fd_set_msg set = {.n = 0};
    struct pair p = pair_open(SOCK_SEQPACKET);
    int before = open_count();
    char got[4];

    CHECK_INT(fd_send(p.a, "12345", 5, (const int[]){p.a, p.b}, 2, 0), 5);
    CHECK_INT(fd_recv(p.b, got, sizeof(got), &set, 0), -EMSGSIZE);
    CHECK_INT(set.n, 0);
    CHECK_INT(open_count(), before);
    pair_close(&p);
}

/* fd_send() cannot send more than fits, so this peer does not use it. */
static void send_raw_fds(int sock, size_t n)
{
    union {
        char space[CMSG_SPACE(sizeof(int) * 64)];
        struct cmsghdr align;
    } control = {0};
    struct iovec iov = {.iov_base = "x", .iov_len = 1};
    struct msghdr msg = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = control.space,
        .msg_controllen = CMSG_SPACE(sizeof(int) * n),
    };
    int fds[64];
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

    for (size_t i = 0; i < n; i++) {
        fds[i] = sock;
    }
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * n);
    memcpy(CMSG_DATA(c), fds, sizeof(int) * n);
    CHECK_INT(sendmsg(sock, &msg, MSG_NOSIGNAL), 1);
}

TEST(cut_descriptors_are_an_error_and_all_are_closed)
{
    static const size_t counts[] = {FD_MESSAGE_MAX + 1, 64};

    for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
        struct fd_set_msg set = {.n = 0};
        struct pair p = pair_open(SOCK_SEQPACKET);
        int before = open_count();
        char c;

        CASE("%zu descriptors", counts[i]);
        send_raw_fds(p.a, counts[i]);
        CHECK_INT(fd_recv(p.b, &c, 1, &set, 0), -EMSGSIZE);
        CHECK_INT(set.n, 0);
        CHECK_INT(open_count(), before);
        pair_close(&p);
    }
}

TEST(unwanted_descriptors_are_an_error_and_closed)
{
    struct pair p = pair_open(SOCK_SEQPACKET);
    int before = open_count();
    char c;

    CHECK_INT(fd_send(p.a, "x", 1, &p.a, 1, 0), 1);
    CHECK_INT(fd_recv(p.b, &c, 1, NULL, 0), -EBADMSG);
    CHECK_INT(open_count(), before);
    pair_close(&p);
}

TEST(end_of_file_and_a_gone_peer)
{
    static const int types[] = {SOCK_SEQPACKET, SOCK_STREAM};

    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        struct fd_set_msg set = {.n = 0};
        struct pair p = pair_open(types[i]);
        char c;

        CASE("type %d", types[i]);
        CHECK_INT(fd_recv(p.b, &c, 1, &set, MSG_DONTWAIT), -EAGAIN);
        fd_close(&p.a);
        CHECK_INT(fd_recv(p.b, &c, 1, &set, 0), 0);
        CHECK_INT(set.n, 0);
        CHECK_INT(fd_send(p.b, "x", 1, NULL, 0, 0), -EPIPE); /* and no SIGPIPE */
        pair_close(&p);
    }
    CASE("not a socket");
    CHECK_INT(fd_send(STDIN_FILENO, "x", 1, NULL, 0, 0), -ENOTSOCK);
    CHECK_INT(fd_recv(STDIN_FILENO, (char[1]){0}, 1, NULL, 0), -ENOTSOCK);
}

TEST(release_of_an_empty_set_does_nothing)
{
    struct fd_set_msg set = {.n = 0};
    int before = open_count();

    fd_set_release(&set);
    CHECK_INT(set.n, 0);
    CHECK_INT(open_count(), before);
}
