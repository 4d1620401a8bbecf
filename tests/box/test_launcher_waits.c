/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nothing that others do makes the launcher wait.
 *
 * Most of it is about descriptors whose close() waits, from a client or a zygote, refused or
 * not: TCP sockets that linger for longer than any test, with data that their peer does
 * not read.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "engine_fixture.h"
#include "launcher_fixture.h"
#include "proc_fixture.h"
#include "tap.h"

#define LINGER_S 3000
#define MANY 400

/* The waiting end comes first. */
static void lingering_pair(int ret[2])
{
    const struct linger wait = {.l_onoff = 1, .l_linger = LINGER_S};
    const int little = 4096; /* memory for each */
    static const char data[65536];
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);
    AUTO_CLOSE int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK_INT(setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &little, sizeof(little)), 0);
    CHECK_INT(bind(listener, (struct sockaddr *)&at, size), 0);
    CHECK_INT(listen(listener, 1), 0);
    CHECK_INT(getsockname(listener, (struct sockaddr *)&at, &size), 0);
    ret[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_INT(setsockopt(ret[0], SOL_SOCKET, SO_SNDBUF, &little, sizeof(little)), 0);
    CHECK_INT(connect(ret[0], (struct sockaddr *)&at, size), 0);
    ret[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    CHECK(ret[1] >= 0);
    while (send(ret[0], data, sizeof(data), MSG_DONTWAIT) > 0) {
    }
    CHECK_INT(setsockopt(ret[0], SOL_SOCKET, SO_LINGER, &wait, sizeof(wait)), 0);
}

/* Ours is closed before the launcher looks: it has the last copy. */
static void send_lingering(struct launcher_client *c, struct launcher_req *req, size_t n, int *peer)
{
    int pair[2];

    lingering_pair(pair);
    const int fds[LAUNCHER_BOX_FDS] = {pair[0], pair[0], pair[0], pair[0]};
    CHECK_INT(kill(c->pid, SIGSTOP), 0);
    launcher_send(c, req, fds, n);
    close(pair[0]);
    CHECK_INT(kill(c->pid, SIGCONT), 0);
    *peer = pair[1];
}

static void check_serves(struct launcher_client *c, uint32_t box)
{
    struct launcher_req usage = {.op = LAUNCHER_USAGE, .box_id = box};

    launcher_call(c, &usage, NULL, 0, LAUNCHER_EV_USAGE);
}

TEST(a_client_cannot_make_it_wait)
{
    AUTO_LAUNCHER struct launcher_client c = launcher_open();
    int peers[2];

    launcher_greet(&c);
    uint32_t id = launcher_shell_template(&c, 2);
    struct launcher_box box = launcher_box(&c, id, 0);
    struct launcher_req ask = {
        .op = LAUNCHER_BOX, .template_id = id, .box = {.limits = limits_default()}};
    struct launcher_req keep = {.op = LAUNCHER_KEEP, .box_id = box.id};

    CASE("to have it kept");
    send_lingering(&c, &keep, 1, &peers[0]);
    CHECK_INT(launcher_answer(&c).err.code, ERR_INVALID);
    check_serves(&c, box.id);
    CASE("as the ends of a box");
    send_lingering(&c, &ask, LAUNCHER_BOX_FDS, &peers[1]);
    CHECK_INT(launcher_answer(&c).err.code, ERR_INVALID);
    check_serves(&c, box.id);
    for (size_t i = 0; i < ARRAY_LEN(peers); i++) {
        close(peers[i]);
    }
    launcher_box_release(&box);
}

/* More than the closer's socket holds. */
TEST(a_client_cannot_make_it_wait_with_hundreds)
{
    AUTO_LAUNCHER struct launcher_client c = launcher_open();
    static int peers[MANY];

    launcher_greet(&c);
    struct launcher_box box = launcher_box(&c, launcher_shell_template(&c, 1), 0);
    for (size_t i = 0; i < ARRAY_LEN(peers); i++) {
        struct launcher_req keep = {.op = LAUNCHER_KEEP, .box_id = box.id};
        send_lingering(&c, &keep, 1, &peers[i]);
        CHECK_INT(launcher_answer(&c).err.code, ERR_INVALID);
    }
    check_serves(&c, box.id);
    for (size_t i = 0; i < ARRAY_LEN(peers); i++) {
        close(peers[i]);
    }
    launcher_box_release(&box);
}

TEST(a_closer_that_was_killed_is_replaced)
{
    AUTO_LAUNCHER struct launcher_client c = launcher_open();
    int peer;

    launcher_greet(&c);
    struct launcher_box box = launcher_box(&c, launcher_shell_template(&c, 1), 0);
    struct launcher_req keep = {.op = LAUNCHER_KEEP, .box_id = box.id};
    pid_t old = proc_closer(c.pid);
    proc_kill(old);
    send_lingering(&c, &keep, 1, &peer);
    CHECK_INT(launcher_answer(&c).err.code, ERR_INVALID);
    check_serves(&c, box.id);
    close(peer);
    launcher_box_release(&box);
}

/* It lies unread in a socketpair of the kind that a box has. */
TEST(what_waits_inside_of_what_is_kept_does_not_either)
{
    AUTO_LAUNCHER struct launcher_client c = launcher_open();
    int outer[2];
    int inner[2];

    launcher_greet(&c);
    struct launcher_box box = launcher_box(&c, launcher_shell_template(&c, 1), 0);
    struct launcher_req keep = {.op = LAUNCHER_KEEP, .box_id = box.id};
    struct launcher_req drop = {.op = LAUNCHER_DROP, .box_id = box.id};
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, outer), 0);
    lingering_pair(inner);
    CHECK_INT(fd_send(outer[0], "x", 1, &inner[0], 1, 0), 1);
    launcher_send(&c, &keep, &outer[1], 1);
    check_serves(&c, box.id); /* it has read the request */
    close(inner[0]);
    close(outer[1]);
    launcher_send(&c, &drop, NULL, 0);
    check_serves(&c, box.id);
    close(outer[0]);
    close(inner[1]);
    launcher_box_release(&box);
}

TEST(a_client_that_hangs_up_cannot_make_it_wait)
{
    AUTO_LAUNCHER struct launcher_client c = launcher_open_for(geteuid());
    struct launcher_req unread = {.op = LAUNCHER_USAGE};
    int pairs[20][2];

    launcher_greet(&c);
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        lingering_pair(pairs[i]);
    }
    CHECK_INT(kill(c.pid, SIGSTOP), 0);
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        launcher_send(&c, &unread, &pairs[i][0], 1); /* hung up on at the first */
        close(pairs[i][0]);
    }
    launcher_succeed(&c, geteuid());
    CHECK_INT(kill(c.pid, SIGCONT), 0);
    launcher_greet(&c);
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        close(pairs[i][1]);
    }
}

/* Makes a waiting socket `a` and its peer `b`. Both are sent, or the peer would end with it. */
static const char hostile[] =
    "import ctypes, fcntl, socket, struct, time\n"
    "ctypes.CDLL(None).unshare(0x40000000)\n" /* CLONE_NEWNET: a network of its own */
    "s = socket.socket(fileno=3)\n"
    "u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
    "fcntl.ioctl(u, 0x8914, struct.pack('16sh14x', b'lo', 65))\n" /* SIOCSIFFLAGS: up */
    "l = socket.create_server(('127.0.0.1', 0))\n"
    "a = socket.create_connection(l.getsockname())\n"
    "b, _ = l.accept()\n"
    "a.setblocking(False)\n"
    "try:\n"
    "    while 1: a.send(b'x' * 65536)\n"
    "except OSError: pass\n"
    "a.setsockopt(1, 13, struct.pack('ii', 1, 3000))\n"
    "f = [a.fileno(), b.fileno()]\n"
    "%s\n"
    "a.close(); b.close()\n"
    "time.sleep(100)\n";

TEST(a_zygote_cannot_make_it_wait)
{
    static const char *const programs[] = {
        "socket.send_fds(s, [b'nonsense'], f)",
        "socket.send_fds(s, [b'x' * 9999], f)",              /* longer than any message */
        "socket.send_fds(s, [b'x'], f * 100)",               /* more than any message has */
        "for i in range(20): socket.send_fds(s, [b'x'], f)", /* most of it is never read */
        "p, q = socket.socketpair()\n"
        "socket.send_fds(p, [b'x'], f)\n"
        "socket.send_fds(s, [b'x'], [q.fileno(), p.fileno()])", /* nested */
    };
    AUTO_LAUNCHER struct launcher_client c = launcher_open();
    char code[LAUNCHER_TEXT_MAX];

    launcher_greet(&c);
    struct launcher_box box = launcher_box(&c, launcher_shell_template(&c, 1), 0);
    for (size_t i = 0; i < ARRAY_LEN(programs); i++) {
        CASE("%s", programs[i]);
        uint32_t id = launcher_template(&c, 1);
        struct launcher_req start = {.op = LAUNCHER_START, .template_id = id};
        CHECK_INT(str_format(code, sizeof(code), hostile, programs[i]), 0);
        launcher_fill(&c, id);
        launcher_text(&c, id, LAUNCHER_ARG, "/usr/bin/python3");
        launcher_text(&c, id, LAUNCHER_ARG, "-ISc");
        launcher_text(&c, id, LAUNCHER_ARG, code);
        struct launcher_rep rep = launcher_call(&c, &start, NULL, 0, LAUNCHER_EV_ERROR);
        CHECK_HAS(rep.err.msg, "died while starting");
        CHECK(strstr(rep.err.msg, "Error") == NULL); /* what Python says when it could not send */
        check_serves(&c, box.id);
    }
    launcher_box_release(&box);
}

/*
 * A child that is traced is not buried before its tracer takes note, and the first process of a pid
 * namespace goes last: it takes long to die, as with much memory or many locks.
 */
TEST(a_zygote_that_takes_long_to_die_holds_up_nobody)
{
    AUTO_LAUNCHER struct launcher_client c = launcher_open();
    static struct proc_list child;

    launcher_greet(&c);
    uint32_t id = launcher_template(&c, 1);
    struct launcher_req start = {.op = LAUNCHER_START, .template_id = id};
    struct launcher_req stop = {.op = LAUNCHER_STOP, .template_id = id};
    launcher_fill(&c, id);
    launcher_text(&c, id, LAUNCHER_ARG, "/usr/bin/python3");
    launcher_text(&c, id, LAUNCHER_ARG, "-ISc");
    launcher_text(&c, id, LAUNCHER_ARG, "import os, time; os.fork(); time.sleep(100)");
    launcher_send(&c, &start, NULL, 0);
    while (child.n == 0) {
        pid_t zygote = 0;
        proc_children(c.pid, &child);
        zygote = child.n == 3 ? proc_zygote(c.pid) : 0; /* beside guard and closer */
        child.n = 0;
        if (zygote > 0) {
            proc_children(zygote, &child);
        }
    }
    CHECK_INT(ptrace(PTRACE_SEIZE, child.pids[0], NULL, NULL), 0);
    launcher_call(&c, &stop, NULL, 0, LAUNCHER_EV_OK);
    struct launcher_box box = launcher_box(&c, launcher_shell_template(&c, 1), 0);
    check_serves(&c, box.id);
    CHECK_INT(waitpid(child.pids[0], NULL, __WALL), child.pids[0]);
    launcher_box_release(&box);
}
