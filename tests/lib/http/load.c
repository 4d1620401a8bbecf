/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small load generator: N connections, each sends a GET, waits for the whole answer, sends the
 * next.
 *
 *     http_load PORT CONNECTIONS SECONDS [PATH]
 *
 * Prints "requests N seconds S rate R errors E". Answers must have a Content-Length. One thread,
 * epoll.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/parse.h"
#include "base/str.h"

struct client {
    int fd;
    size_t have;
    size_t want; /* 0: the head is not complete */
    char buf[4096];
};

static char request[512];
static size_t request_len;

static int open_client(struct client *c, uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1;

    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
        perror("connect");
        return -1;
    }
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return 0;
}

static int send_request(struct client *c)
{
    c->have = 0;
    c->want = 0;
    return send(c->fd, request, request_len, MSG_NOSIGNAL) == (ssize_t)request_len ? 0 : -1;
}

/* 1 when the answer is complete, 0 when not, -1 when it is wrong. */
static int receive(struct client *c)
{
    ssize_t n = recv(c->fd, c->buf + c->have, sizeof(c->buf) - 1 - c->have, MSG_DONTWAIT);

    if (n <= 0) {
        return n < 0 && errno == EAGAIN ? 0 : -1;
    }
    c->have += (size_t)n;
    c->buf[c->have] = '\0';
    if (c->want == 0) {
        const char *end = strstr(c->buf, "\r\n\r\n");
        const char *length = strcasestr(c->buf, "\r\nContent-Length:");
        if (end == NULL) {
            return 0;
        }
        if (strncmp(c->buf, "HTTP/1.1 200 ", 13) != 0 || length == NULL) {
            return -1;
        }
        c->want = (size_t)(end + 4 - c->buf) + strtoul(length + 17, NULL, 10);
    }
    return c->have >= c->want;
}

static unsigned long long run(struct client *clients, size_t n, uint64_t seconds, size_t *errors)
{
    struct epoll_event events[256];
    unsigned long long done = 0;
    uint64_t end = clock_ms() + seconds * 1000;
    int ep = epoll_create1(EPOLL_CLOEXEC);

    for (size_t i = 0; i < n; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &clients[i]};
        epoll_ctl(ep, EPOLL_CTL_ADD, clients[i].fd, &event);
        *errors += send_request(&clients[i]) < 0;
    }
    while (clock_ms() < end) {
        int ready = epoll_wait(ep, events, 256, 100);
        for (int i = 0; i < ready; i++) {
            struct client *c = events[i].data.ptr;
            int r = receive(c);
            if (r > 0) {
                done++;
                r = send_request(c);
            }
            if (r < 0) {
                (*errors)++;
                epoll_ctl(ep, EPOLL_CTL_DEL, c->fd, NULL);
            }
        }
    }
    close(ep);
    return done;
}

int main(int argc, char **argv)
{
    uint64_t port = 0;
    uint64_t n = 0;
    uint64_t seconds = 0;
    size_t errors = 0;

    if (argc < 4 || parse_u64(argv[1], &port) < 0 || parse_u64(argv[2], &n) < 0 ||
        parse_u64(argv[3], &seconds) < 0 || n == 0) {
        fprintf(stderr, "usage: http_load PORT CONNECTIONS SECONDS [PATH]\n");
        return 2;
    }
    if (str_format(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n",
                   argc > 4 ? argv[4] : "/hello") < 0) {
        return 2;
    }
    request_len = strlen(request);
    struct client *clients = calloc(n, sizeof(*clients));
    if (clients == NULL) {
        return 1;
    }
    for (size_t i = 0; i < n; i++) {
        if (open_client(&clients[i], (uint16_t)port) < 0) {
            return 1;
        }
    }
    uint64_t start = clock_ms();
    unsigned long long done = run(clients, n, seconds, &errors);
    double took = (double)(clock_ms() - start) / 1000;
    printf("requests %llu seconds %.2f rate %.0f errors %zu\n", done, took, (double)done / took,
           errors);
    free(clients);
    return errors == 0 ? 0 : 1;
}
