/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The descriptors that a client gives to a box: an end of a socketpair and ends of pipes. A
 * launcher refuses every other kind, at every place, and makes boxes afterwards as before.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "launcher_fixture.h"
#include "tap.h"

#define PLACES_ALL (-1)

static char folder[] = "/tmp/husk-ends-XXXXXX";

static struct sockaddr_un in_folder(const char *name)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};

    CHECK_INT(str_format(addr.sun_path, sizeof(addr.sun_path), "%s/%s", folder, name), 0);
    return addr;
}

static int unix_socket(int type)
{
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

    CHECK(fd >= 0);
    return fd;
}

static int bound_as(const char *name)
{
    struct sockaddr_un addr = in_folder(name);
    int fd = unix_socket(SOCK_STREAM);

    CHECK_INT(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    return fd;
}

static int listening_as(const char *name)
{
    int fd = bound_as(name);

    CHECK_INT(listen(fd, 1), 0);
    return fd;
}

static int one_of_pair(int type)
{
    int pair[2];

    CHECK_INT(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, pair), 0);
    close(pair[1]);
    return pair[0];
}

static int make_tcp(void)
{
    return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

/* Connected and without a name of a file: but not a unix socket. */
static int make_tcp_connected(void)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(addr);
    AUTO_CLOSE int listener = make_tcp();
    int fd = make_tcp();

    CHECK_INT(bind(listener, (struct sockaddr *)&addr, sizeof(addr)), 0);
    CHECK_INT(listen(listener, 1), 0);
    CHECK_INT(getsockname(listener, (struct sockaddr *)&addr, &size), 0);
    CHECK_INT(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    return fd;
}

static int make_udp(void)
{
    return socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}

static int make_netlink(void)
{
    return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
}

static int make_unix_datagram(void)
{
    return one_of_pair(SOCK_DGRAM);
}

static int make_unix_packets(void)
{
    return one_of_pair(SOCK_SEQPACKET);
}

static int make_unix_alone(void)
{
    return unix_socket(SOCK_STREAM);
}

static int make_unix_bound(void)
{
    return bound_as("bound");
}

static int make_unix_listening(void)
{
    return listening_as("listening");
}

/* It has no name itself; its peer has. */
static int make_unix_connected(void)
{
    struct sockaddr_un addr = in_folder("connected");
    AUTO_CLOSE int listener = listening_as("connected");
    int fd = unix_socket(SOCK_STREAM);

    CHECK(listener >= 0);
    CHECK_INT(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    return fd;
}

static int make_unix_accepted(void)
{
    struct sockaddr_un addr = in_folder("accepted");
    AUTO_CLOSE int listener = listening_as("accepted");
    AUTO_CLOSE int peer = unix_socket(SOCK_STREAM);

    CHECK_INT(connect(peer, (struct sockaddr *)&addr, sizeof(addr)), 0);
    return accept4(listener, NULL, NULL, SOCK_CLOEXEC);
}

static int make_unix_abstract(void)
{
    const struct sockaddr_un addr = {.sun_family = AF_UNIX}; /* the kernel chooses a name */
    int fd = one_of_pair(SOCK_STREAM);

    CHECK_INT(bind(fd, (const struct sockaddr *)&addr, sizeof(addr.sun_family)), 0);
    return fd;
}

static int make_directory(void)
{
    return open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int make_path(void)
{
    return open("/etc", O_PATH | O_CLOEXEC);
}

static int make_device(void)
{
    return open("/dev/zero", O_RDWR | O_CLOEXEC);
}

static int make_file(void)
{
    return memfd_create("ends", MFD_CLOEXEC);
}

static int make_fifo(void)
{
    char path[64];

    CHECK_INT(str_format(path, sizeof(path), "%s/fifo", folder), 0);
    CHECK(mkfifo(path, 0600) == 0);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK_INT(unlink(path), 0);
    return fd;
}

static int make_socketpair(void)
{
    return one_of_pair(SOCK_STREAM);
}

static int make_pipe(void)
{
    int ends[2];

    CHECK_INT(pipe2(ends, O_CLOEXEC), 0);
    close(ends[1]);
    return ends[0];
}

static const struct kind {
    const char *name;
    int (*make)(void);
    int fits; /* the place that takes it; stdin stands for all three streams */
} kinds[] = {
    {"a TCP socket", make_tcp, PLACES_ALL},
    {"a connected TCP socket", make_tcp_connected, PLACES_ALL},
    {"a UDP socket", make_udp, PLACES_ALL},
    {"a netlink socket", make_netlink, PLACES_ALL},
    {"a unix datagram socket", make_unix_datagram, PLACES_ALL},
    {"a unix packet socket", make_unix_packets, PLACES_ALL},
    {"a unix socket without a peer", make_unix_alone, PLACES_ALL},
    {"a bound unix socket", make_unix_bound, PLACES_ALL},
    {"a listening unix socket", make_unix_listening, PLACES_ALL},
    {"a unix socket connected by name", make_unix_connected, PLACES_ALL},
    {"an accepted unix socket", make_unix_accepted, PLACES_ALL},
    {"a socketpair's end with an abstract name", make_unix_abstract, PLACES_ALL},
    {"a directory", make_directory, PLACES_ALL},
    {"a path", make_path, PLACES_ALL},
    {"a device", make_device, PLACES_ALL},
    {"a file in memory", make_file, PLACES_ALL},
    {"a named pipe", make_fifo, PLACES_ALL},
    {"a socketpair as a stream", make_socketpair, 0},
    {"a pipe to talk through", make_pipe, 1},
};

static void check_refused(struct launcher_client *c, uint32_t template_id, const struct kind *kind)
{
    struct launcher_req req = {
        .op = LAUNCHER_BOX, .template_id = template_id, .box.limits = limits_default()};
    AUTO_CLOSE int fd = kind->make();
    int ours[LAUNCHER_BOX_FDS];
    int theirs[LAUNCHER_BOX_FDS];

    CHECK(fd >= 0);
    launcher_ends(ours, theirs);
    for (int place = 0; place < LAUNCHER_BOX_FDS; place++) {
        int fds[LAUNCHER_BOX_FDS];
        bool fits = kind->fits == 0 ? place == 0 : kind->fits == 1 && place > 0;
        if (fits) {
            continue;
        }
        CASE("%s as descriptor %d", kind->name, place);
        memcpy(fds, theirs, sizeof(fds));
        fds[place] = fd;
        struct launcher_rep rep = launcher_call(c, &req, fds, LAUNCHER_BOX_FDS, LAUNCHER_EV_ERROR);
        CHECK_INT(rep.err.code, ERR_INVALID);
    }
    for (int i = 0; i < LAUNCHER_BOX_FDS; i++) {
        close(ours[i]);
        close(theirs[i]);
    }
}

static void remove_folder(void)
{
    static const char *const names[] = {"bound", "listening", "connected", "accepted"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct sockaddr_un addr = in_folder(names[i]);
        CHECK_INT(unlink(addr.sun_path), 0);
    }
    CHECK_INT(rmdir(folder), 0);
}

TEST(a_box_gets_an_end_of_a_socketpair_and_pipes_only)
{
    AUTO_LAUNCHER struct launcher_client c = launcher_open();

    CHECK(mkdtemp(folder) != NULL);
    launcher_greet(&c);
    uint32_t id = launcher_shell_template(&c, 2);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        check_refused(&c, id, &kinds[i]);
    }
    struct launcher_box box = launcher_box(&c, id, 0);
    launcher_box_release(&box);
    remove_folder();
}
