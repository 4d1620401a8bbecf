/* SPDX-License-Identifier: Apache-2.0 */
/* The life of requests, connections and the server, where a handler does something unusual. */
#include "http/server.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "tap.h"

/* Last: its MIN and MAX clash with those of base/attr.h unless they come after. */
#include <uv.h>

static const char get[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

static struct {
    uv_loop_t loop;
    struct http_server *server;
    int client;
    struct http_request *req; /* the last one */
    unsigned requests;
    unsigned done;
    enum http_end how;
    bool is_drained;
    char got[4096]; /* by the client */
    size_t len;
    bool is_eof;
} t;

static void free_server(void)
{
    http_server_free(t.server);
    t.server = NULL;
}

static void open_server(void (*on_request)(void *user, struct http_request *req))
{
    struct http_config config = http_config_default();
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t len = offsetof(struct sockaddr_un, sun_path); /* the kernel chooses a name */
    struct err e = {0};

    config.on_request = on_request;
    CHECK_INT(uv_loop_init(&t.loop), 0);
    t.server = http_server_new(&t.loop, &config, &e);
    CHECK(t.server != NULL);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CHECK_INT(bind(fd, (struct sockaddr *)&address, len), 0);
    CHECK_INT(listen(fd, 1), 0);
    CHECK_INT(http_server_listen(t.server, fd, &e), 0);
    len = sizeof(address);
    CHECK_INT(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    t.client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_INT(connect(t.client, (struct sockaddr *)&address, len), 0);
}

/* One turn of the loop, waiting for its next event; then what the client can read. */
static void turn(void)
{
    struct pollfd p = {.fd = uv_backend_fd(&t.loop), .events = POLLIN};

    (void)poll(&p, 1, uv_backend_timeout(&t.loop));
    uv_run(&t.loop, UV_RUN_NOWAIT);
    ssize_t n = recv(t.client, t.got + t.len, sizeof(t.got) - 1 - t.len, MSG_DONTWAIT);
    t.len += n > 0 ? (size_t)n : 0;
    t.is_eof = t.is_eof || n == 0 || (n < 0 && errno == ECONNRESET);
}

static void send_text(const char *text)
{
    CHECK_INT(write(t.client, text, strlen(text)), (ssize_t)strlen(text));
}

static void close_all(void)
{
    free_server();
    CHECK_INT(uv_run(&t.loop, UV_RUN_DEFAULT), 0);
    CHECK_INT(uv_loop_close(&t.loop), 0);
    fd_close(&t.client);
    uv_library_shutdown();
}

static void on_done(void *user, enum http_end how)
{
    (void)user;
    t.done++;
    t.how = how;
}

static void on_done_free(void *user, enum http_end how)
{
    on_done(user, how);
    free_server();
}

static void on_drained(void *user)
{
    (void)user;
    t.is_drained = true;
}

static void keep(void *user, struct http_request *req)
{
    (void)user;
    t.requests++;
    t.req = req;
}

static void reply_at_once(void *user, struct http_request *req)
{
    keep(user, req);
    http_reply(req, 200, "text/plain", "hi", 2);
}

static void reply_and_free_when_done(void *user, struct http_request *req)
{
    http_request_own(req, NULL, on_done_free);
    reply_at_once(user, req);
}

static void free_at_once(void *user, struct http_request *req)
{
    keep(user, req);
    http_request_own(req, NULL, on_done);
    free_server();
}

TEST(pipelined_requests_are_answered_in_one_turn)
{
    open_server(reply_at_once);
    send_text(get);
    send_text(get);
    while (t.requests < 2 || t.len == 0) {
        turn();
    }
    const char *second = strstr(t.got + 1, "HTTP/1.1 200 OK\r\n");
    CHECK(second != NULL);
    CHECK(strstr(second + 1, "HTTP/1.1") == NULL);
    CHECK_INT(http_server_stats(t.server).busy, 0);
    close_all();
}

/* Drops the connection while its handler has not answered: there is no time left. */
static void drain_now(void)
{
    while (t.req == NULL) {
        turn();
    }
    http_server_drain(t.server, 0, on_drained, NULL);
    while (!t.is_drained) {
        turn();
    }
    CHECK_INT(http_server_stats(t.server).open, 0);
}

TEST(a_handler_without_on_done_may_answer_after_the_client_has_gone)
{
    open_server(keep);
    send_text(get);
    drain_now();
    CHECK_INT(http_server_stats(t.server).busy, 1);
    CHECK_STR(http_path(t.req), "/"); /* still valid */
    http_reply(t.req, 200, "text/plain", "late", 4);
    while (http_server_stats(t.server).busy > 0) {
        turn();
    }
    turn();
    CHECK(t.is_eof);
    CHECK_INT(t.len, 0);
    close_all();
}

TEST(a_handler_without_on_done_may_give_up_after_the_client_has_gone)
{
    open_server(keep);
    send_text(get);
    drain_now();
    http_abort(t.req);
    while (http_server_stats(t.server).busy > 0) {
        turn();
    }
    close_all();
}

TEST(a_late_on_done_is_called_for_a_client_that_has_gone)
{
    open_server(keep);
    send_text(get);
    drain_now();
    http_request_own(t.req, NULL, on_done);
    while (t.done == 0) {
        turn();
    }
    CHECK_INT(t.how, HTTP_GONE);
    close_all();
    CHECK_INT(t.done, 1);
}

TEST(on_done_may_free_the_server)
{
    open_server(reply_and_free_when_done);
    send_text(get);
    while (t.done == 0) {
        turn();
    }
    CHECK_INT(t.how, HTTP_ANSWERED);
    close_all();
    CHECK_INT(t.done, 1);
}

TEST(a_handler_may_free_the_server)
{
    open_server(free_at_once);
    send_text(get);
    while (t.requests == 0) {
        turn();
    }
    CHECK_INT(t.done, 1);
    CHECK_INT(t.how, HTTP_GONE);
    close_all();
    CHECK_INT(t.done, 1);
}

TEST(a_refused_request_never_reaches_the_handler)
{
    open_server(keep);
    send_text(
        "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nOrigin: http://evil.example\r\n\r\n");
    while (!t.is_eof) {
        turn();
        if (strstr(t.got, "\r\n\r\n") != NULL) {
            (void)shutdown(t.client, SHUT_WR);
        }
    }
    CHECK(strncmp(t.got, "HTTP/1.1 403 ", 13) == 0);
    CHECK(strstr(t.got, "\r\nConnection: close\r\n") != NULL);
    CHECK_INT(t.requests, 0);
    CHECK_INT(http_server_stats(t.server).busy, 0);
    close_all();
}
