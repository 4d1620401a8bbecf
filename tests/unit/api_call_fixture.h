/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layer of calls in a child process, and a client for it. Whoever includes this defines
 * api_handlers[] first: these are the handlers behind the real routes.
 */
#pragma once

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/call/call.h"
#include "base/fd.h"
#include "base/fiber.h"
#include "base/str.h"
#include "config/config.h"
#include "http/server.h"
#include "tap.h"

/* Last: its MIN and MAX clash with those of base/attr.h unless they come after. */
#include <uv.h>

#define ANSWER_MAX ((size_t)16 << 20)

/* ---- the server ---- */

static uv_loop_t loop;
static uv_timer_t timer;
static uv_poll_t poll_fibers;
static uv_prepare_t prepare;

static void on_timer(uv_timer_t *t)
{
}

static void on_fibers(uv_poll_t *p, int status, int revents)
{
}

static void on_prepare(uv_prepare_t *p)
{
    fiber_run();
    int ms = fiber_timeout();
    if (ms >= 0) {
        uv_timer_start(&timer, on_timer, (uint64_t)ms, 0);
    }
}

static NORETURN void serve(int fd)
{
    static const char *const hosts[] = {"test"};
    struct config config = {.max_body_bytes = 1 << 20, .max_upload_bytes = 1 << 20};
    struct err e = {0};

    uv_loop_init(&loop);
    uv_timer_init(&loop, &timer);
    uv_prepare_init(&loop, &prepare);
    uv_prepare_start(&prepare, on_prepare);
    uv_poll_init(&loop, &poll_fibers, fiber_fd());
    uv_poll_start(&poll_fibers, UV_READABLE, on_fibers);
    struct api *api = api_open(&(struct api_options){.config = &config, .loop = &loop});
    struct http_config http = http_config_default();
    http.on_request = api_on_request;
    http.error_body = api_error_body;
    http.user = api;
    http.hosts = hosts;
    http.nhosts = 1;
    struct http_server *server = http_server_new(&loop, &http, &e);
    CHECK(server != NULL);
    CHECK_INT(http_server_listen(server, fd, &e), 0);
    api_set_server(api, server);
    uv_run(&loop, UV_RUN_DEFAULT);
    _exit(1);
}

static uint16_t start(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);

    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0 && listen(fd, 64) == 0);
    CHECK_INT(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        serve(fd);
    }
    fd_close(&fd);
    return ntohs(a.sin_port);
}

/* ---- the client ---- */

static int dial(uint16_t port)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0);
    return fd;
}

/* Sends a request and reads to the end of the connection. Owned by the caller. */
static char *talk(uint16_t port, const char *head, const char *body, size_t len)
{
    AUTO_CLOSE int fd = dial(port);
    char *answer = malloc(ANSWER_MAX);
    char all[2048];

    CHECK_INT(str_format(all, sizeof(all),
                         "%s HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: "
                         "%zu\r\nContent-Type: application/json\r\n\r\n",
                         head, len),
              0);
    CHECK_INT(fd_write_all(fd, all, strlen(all)), 0);
    (void)fd_write_all(fd, body, len); /* may be refused midway */
    ssize_t n = fd_read_all(fd, answer, ANSWER_MAX - 1);
    CHECK(n >= 0);
    answer[n] = '\0';
    return answer;
}

static char *ask(uint16_t port, const char *head, const char *body)
{
    return talk(port, head, body, strlen(body));
}

static void check_has(const char *answer, const char *text)
{
    if (strstr(answer, text) == NULL) {
        tap_fail(__FILE__, __LINE__, "no \"%s\" in: %.600s", text, answer);
    }
}

#define EXPECT(port, head, body, ...)                                                              \
    do {                                                                                           \
        const char *const wanted[] = {__VA_ARGS__};                                                \
        AUTO_FREE char *got = ask((port), (head), (body));                                         \
        for (size_t i_ = 0; i_ < ARRAY_LEN(wanted); i_++) {                                        \
            check_has(got, wanted[i_]);                                                            \
        }                                                                                          \
    } while (0)
