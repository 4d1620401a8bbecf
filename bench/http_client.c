/* SPDX-License-Identifier: Apache-2.0 */
/* A small HTTP client; see http_client.h. */
#include "http_client.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"

#define PATIENCE_S 60 /* a guard against hanging, never a measurement */

int http_open(struct http_client *c, uint16_t port, struct err *e)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval patience = {.tv_sec = PATIENCE_S};
    const int on = 1;

    c->port = port;
    c->len = 0;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0 || connect(c->fd, (const struct sockaddr *)&address, sizeof(address)) < 0) {
        err_sys(e, errno, "connect to port %u", port);
        fd_close(&c->fd);
        return -1;
    }
    (void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    return 0;
}

void http_close(struct http_client *c)
{
    fd_close(&c->fd);
}

size_t http_request(char *ret, size_t size, uint16_t port, const char *target, const char *body)
{
    int r =
        body == NULL
            ? str_format(ret, size, "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n\r\n", target, port)
            : str_format(ret, size,
                         "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n"
                         "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                         target, port, strlen(body), body);

    return r < 0 ? 0 : strlen(ret);
}

int http_send(struct http_client *c, const char *target, const char *body, struct err *e)
{
    char text[HTTP_REQUEST_MAX];
    size_t n = http_request(text, sizeof(text), c->port, target, body);

    c->len = 0;
    if (n == 0) {
        return err_set(e, ERR_INVALID, "the request is too long");
    }
    ssize_t sent = send(c->fd, text, n, MSG_NOSIGNAL);
    return sent == (ssize_t)n ? 0
                              : err_sys(e, sent < 0 ? errno : EAGAIN, "send to port %u", c->port);
}

int http_delete(struct http_client *c, const char *target, struct err *e)
{
    struct http_answer answer;
    char text[HTTP_REQUEST_MAX];

    c->len = 0;
    (void)str_format(text, sizeof(text), "DELETE %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n\r\n", target,
                     c->port);
    if (send(c->fd, text, strlen(text), MSG_NOSIGNAL) < 0) {
        return err_sys(e, errno, "send to port %u", c->port);
    }
    if (http_receive(c, &answer, e) < 0) {
        return -1;
    }
    return answer.status / 100 == 2 ? 0
                                    : err_set(e, ERR_PROTOCOL, "DELETE %s: %d %.200s", target,
                                              answer.status, answer.body);
}

int http_parse(char *data, size_t len, struct http_answer *ret, struct err *e)
{
    data[len] = '\0';
    const char *end = strstr(data, "\r\n\r\n");
    if (end == NULL) {
        return len < HTTP_ANSWER_MAX ? 0 : err_set(e, ERR_PROTOCOL, "the answer's head has no end");
    }
    size_t head = (size_t)(end - data) + 4;
    const char *length = strcasestr(data, "\r\ncontent-length:");
    if (!str_starts(data, "HTTP/1.1 ") || length == NULL || length > end) {
        return err_set(e, ERR_PROTOCOL, "the answer is not HTTP/1.1 with a length: %.60s", data);
    }
    ret->status = (int)strtol(data + strlen("HTTP/1.1 "), NULL, 10);
    ret->len = strtoul(length + strlen("\r\ncontent-length:"), NULL, 10);
    ret->whole = head + ret->len;
    ret->body = data + head;
    if (ret->whole > HTTP_ANSWER_MAX) {
        return err_set(e, ERR_PROTOCOL, "the answer is too long: %zu bytes", ret->whole);
    }
    return len >= ret->whole;
}

int http_receive(struct http_client *c, struct http_answer *ret, struct err *e)
{
    int r = 0;

    while (r == 0) {
        ssize_t n = recv(c->fd, c->data + c->len, HTTP_ANSWER_MAX - c->len, 0);
        if (n <= 0) {
            return n == 0 ? err_set(e, ERR_PROTOCOL, "the server closed the connection")
                          : err_sys(e, errno, "receive from port %u", c->port);
        }
        c->len += (size_t)n;
        r = http_parse(c->data, c->len, ret, e);
    }
    return r < 0 ? -1 : 0;
}

int http_call(struct http_client *c, const char *target, const char *body, int expected,
              struct http_answer *ret, struct err *e)
{
    if (http_send(c, target, body, e) < 0 || http_receive(c, ret, e) < 0) {
        return err_wrap(e, "%s", target);
    }
    if (ret->status != expected) {
        return err_set(e, ERR_PROTOCOL, "%s: %d %.200s", target, ret->status, ret->body);
    }
    return 0;
}
