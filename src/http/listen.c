/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listening sockets: accepting, and running out of descriptors. See admit.c for which clients may
 * connect.
 *
 * When accept() fails for lack of descriptors, the connection stays in the backlog and the poll
 * would fire for ever. So a reserve descriptor is given up to accept and close the connection, and
 * accepting pauses for a moment.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "http/conn.h"

#define ACCEPT_MOST 64 /* per turn of the loop, so that requests are served in between */
#define ACCEPT_PAUSE_MS 200

static void describe_unix(int fd, struct http_peer *peer)
{
    struct ucred cred = {.uid = (uid_t)-1, .gid = (gid_t)-1};
    socklen_t len = sizeof(cred);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0) {
        cred = (struct ucred){.uid = (uid_t)-1, .gid = (gid_t)-1};
    }
    *peer = (struct http_peer){.is_unix = true, .pid = cred.pid, .uid = cred.uid, .gid = cred.gid};
    str_copy(peer->address, sizeof(peer->address), "unix");
}

/* An IPv4 client of an IPv6 socket is shown by its IPv4 address. */
static void describe_tcp(const struct sockaddr_storage *address, struct http_peer *peer)
{
    struct sockaddr_in four;
    struct sockaddr_in6 six;
    const void *bytes = &four.sin_addr;
    int family = AF_INET;

    memcpy(&four, address, sizeof(four));
    memcpy(&six, address, sizeof(six));
    *peer = (struct http_peer){.uid = (uid_t)-1, .gid = (gid_t)-1};
    peer->port = ntohs(four.sin_port); /* at the same place in both */
    if (address->ss_family == AF_INET6) {
        bool is_mapped = IN6_IS_ADDR_V4MAPPED(&six.sin6_addr);
        bytes = is_mapped ? &six.sin6_addr.s6_addr[12] : &six.sin6_addr.s6_addr[0];
        family = is_mapped ? AF_INET : AF_INET6;
    }
    if (inet_ntop(family, bytes, peer->address, sizeof(peer->address)) == NULL) {
        str_copy(peer->address, sizeof(peer->address), "unknown");
    }
}

static void open_connection(struct listener *l, int fd, const struct sockaddr_storage *address)
{
    struct http_server *s = l->server;
    struct http_peer peer;
    int one = 1;

    if (l->is_unix) {
        describe_unix(fd, &peer);
    } else {
        describe_tcp(address, &peer);
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    }
    struct http_conn *c = http_conn_new(s, fd, &peer);
    if (c == NULL) {
        fd_close(&fd);
        return;
    }
    s->stats.accepted++;
    int status = http_admit(c, address);
    if (status == 0) {
        return;
    }
    s->stats.over_limit++;
    http_admit_forget(c); /* a connection that is being refused takes no place */
    if (s->over_limit >= REFUSED_MOST) {
        http_conn_doom(c);
        return;
    }
    c->is_over_limit = true;
    s->over_limit++;
    http_conn_refuse(c, status, "too many connections");
}

static void pause_all(struct http_server *s)
{
    for (struct listener *l = s->listeners; l != NULL; l = l->next) {
        uv_poll_stop(&l->poll);
    }
    s->accept_again = uv_now(s->loop) + ACCEPT_PAUSE_MS;
    http_server_tick_on(s);
}

/* Gives up the reserve to close one waiting connection, so that its client fails at once. */
static void shed(struct http_server *s, int listening)
{
    struct sockaddr_storage address;
    socklen_t len = sizeof(address);

    s->stats.accept_pauses++;
    fd_close(&s->reserve);
    int fd = accept4(listening, (struct sockaddr *)&address, &len, SOCK_CLOEXEC);
    fd_close(&fd);
    s->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
    pause_all(s);
}

static void on_connection(uv_poll_t *poll, int status, int events)
{
    struct listener *l = poll->data;
    struct http_server *s = l->server;

    for (int i = 0; status == 0 && i < ACCEPT_MOST; i++) {
        struct sockaddr_storage address = {0};
        socklen_t len = sizeof(address);
        int fd = accept4(l->fd, (struct sockaddr *)&address, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            open_connection(l, fd, &address);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
            shed(s, l->fd);
            return;
        } else if (errno == EAGAIN) {
            return;
        }
    }
}

void http_listeners_resume(struct http_server *s)
{
    s->accept_again = 0;
    for (struct listener *l = s->listeners; l != NULL; l = l->next) {
        if (uv_poll_start(&l->poll, UV_READABLE, on_connection) != 0) {
            pause_all(s);
            return;
        }
    }
}

static void on_listener_closed(uv_handle_t *handle)
{
    struct listener *l = handle->data;
    struct http_server *s = l->server;

    free(l);
    s->handles--;
    http_server_forget(s);
}

void http_listeners_close(struct http_server *s)
{
    struct listener *l = TAKE_PTR(s->listeners);

    s->accept_again = 0;
    while (l != NULL) {
        struct listener *next = l->next;
        uv_close((uv_handle_t *)&l->poll, on_listener_closed);
        fd_close(&l->fd);
        l = next;
    }
}

/* -1 unless it is a listening stream socket of a family that we know. */
static int check_socket(int fd, bool *ret_is_unix, struct err *e)
{
    int domain = 0;
    int type = 0;
    int listening = 0;
    socklen_t len = sizeof(int);

    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) < 0) {
        return err_sys(e, errno, "listening socket");
    }
    if ((domain != AF_UNIX && domain != AF_INET && domain != AF_INET6) || type != SOCK_STREAM ||
        listening == 0) {
        return err_set(e, ERR_INVALID, "descriptor %d is no listening stream socket", fd);
    }
    *ret_is_unix = domain == AF_UNIX;
    return 0;
}

int http_server_listen(struct http_server *s, int fd, struct err *e)
{
    bool is_unix = false;

    if (check_socket(fd, &is_unix, e) < 0) {
        return -1;
    }
    struct listener *l = calloc(1, sizeof(*l));
    if (l == NULL) {
        return err_sys(e, ENOMEM, "listen");
    }
    l->server = s;
    l->is_unix = is_unix;
    int r = uv_poll_init(s->loop, &l->poll, fd);
    if (r != 0) {
        free(l);
        return err_sys(e, -r, "watch the listening socket");
    }
    l->poll.data = l;
    l->fd = fd;
    l->next = s->listeners;
    s->listeners = l;
    s->handles++;
    http_listeners_resume(s);
    return 0;
}
