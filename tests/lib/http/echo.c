/* SPDX-License-Identifier: Apache-2.0 */
/* Main program of the test server; see echo.h. */
#include "echo.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/parse.h"
#include "base/str.h"

struct echo echo = {.body_max = 1 << 20};

static const struct route routes[] = {
    {"/hello", answer_hello},     {"/later", answer_later},     {"/headers", answer_headers},
    {"/stats", answer_stats},     {"/peer", answer_peer},       {"/error", answer_error},
    {"/hold", answer_hold},       {"/release", answer_release}, {"/abort", answer_abort},
    {"/hangup", answer_hangup},   {"/drain", answer_drain},     {"/owned", answer_owned},
    {"/count", body_count},       {"/slow", body_slow},         {"/ignore", body_ignore},
    {"/late", body_late},         {"/upload", body_upload},     {"/stream", stream_bytes},
    {"/flood", stream_flood},     {"/short", stream_short},     {"/sse", stream_events},
    {"/publish", stream_publish}, {"/ws", stream_websocket},
};

static void on_request(void *user, struct http_request *req)
{
    (void)user;
    for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
        if (str_eq(routes[i].path, http_path(req))) {
            routes[i].handle(req);
            return;
        }
    }
    body_echo(req); /* everything else: say what came */
}

/* ---- jobs ---- */

static void on_job_closed(uv_handle_t *handle)
{
    struct job *job = handle->data;

    free(job->more);
    free(job);
}

static void on_job_done(void *user, enum http_end how)
{
    struct job *job = user;

    *(how == HTTP_ANSWERED ? &echo.answered : &echo.gone) += 1;
    uv_close((uv_handle_t *)&job->timer, on_job_closed);
}

struct job *job_new(struct http_request *req)
{
    struct job *job = calloc(1, sizeof(*job));

    if (job == NULL) {
        abort();
    }
    job->req = req;
    uv_timer_init(&echo.loop, &job->timer);
    job->timer.data = job;
    http_request_own(req, job, on_job_done);
    return job;
}

static void on_job_timer(uv_timer_t *timer)
{
    struct job *job = timer->data;

    job->then(job);
}

void job_after(struct job *job, uint64_t ms, void (*then)(struct job *job))
{
    job->then = then;
    uv_timer_start(&job->timer, on_job_timer, ms, 0);
}

const char *query(const struct http_request *req, const char *name)
{
    size_t at = 0;
    const char *found;
    const char *value;

    while (http_query_next(req, &at, &found, &value)) {
        if (str_eq(found, name)) {
            return value;
        }
    }
    return NULL;
}

uint64_t query_number(const struct http_request *req, const char *name, uint64_t fallback)
{
    const char *text = query(req, name);
    uint64_t value = fallback;

    if (text != NULL && parse_u64(text, &value) < 0) {
        return fallback;
    }
    return value;
}

void reply_text(struct http_request *req, int status, const char *fmt, ...)
{
    char text[4096];
    va_list ap;

    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    http_reply(req, status, "text/plain", text, (size_t)MIN(n, (int)sizeof(text) - 1));
}

/* ---- start ---- */

static int listen_tcp(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);

    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
        listen(fd, 1024) < 0 || getsockname(fd, (struct sockaddr *)&address, &len) < 0) {
        perror("listen");
        return -1;
    }
    printf("port %d\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

static int listen_unix(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || str_copy(address.sun_path, sizeof(address.sun_path), path) < 0 ||
        bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 64) < 0) {
        perror("listen on a unix socket");
        return -1;
    }
    return fd;
}

#define LIMIT(name)                                                                                \
    {                                                                                              \
#        name, offsetof(struct http_limits, name), sizeof(((struct http_limits *)0)->name)         \
    }
static const struct {
    const char *name;
    size_t at;
    size_t size;
} limit_names[] = {
    LIMIT(connections),    LIMIT(per_address),       LIMIT(head_ms),          LIMIT(idle_ms),
    LIMIT(body_window_ms), LIMIT(body_bytes_per_s),  LIMIT(write_ms),         LIMIT(linger_ms),
    LIMIT(heartbeat_ms),   LIMIT(ping_ms),           LIMIT(queue_high),       LIMIT(queue_low),
    LIMIT(queue_max),      LIMIT(websocket_message), LIMIT(websocket_frames),
};

/* "name=value" of a limit. */
static int set_limit(struct http_limits *limits, const char *name, uint64_t value)
{
    for (size_t i = 0; i < ARRAY_LEN(limit_names); i++) {
        if (str_eq(limit_names[i].name, name)) {
            memcpy((char *)limits + limit_names[i].at, &value, limit_names[i].size);
            return 0;
        }
    }
    return -1;
}

static int set_option(struct http_config *config, char *argument, const char **unix_path)
{
    char *equals = strchr(argument, '=');
    uint64_t value = 0;

    if (equals == NULL) {
        return -1;
    }
    *equals = '\0';
    if (str_eq(argument, "unix")) {
        *unix_path = equals + 1;
        return 0;
    }
    if (parse_u64(equals + 1, &value) < 0) {
        return -1;
    }
    if (str_eq(argument, "body_max")) {
        echo.body_max = value;
        return 0;
    }
    if (str_eq(argument, "files")) {
        struct rlimit limit = {value, value};
        return setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (str_eq(argument, "any_host")) {
        config->any_host = value != 0;
        return 0;
    }
    return set_limit(&config->limits, argument, value);
}

int main(int argc, char **argv)
{
    static const char *const hosts[] = {"localhost", "127.0.0.1", "good.example:8080", "[::1]"};
    static const char *const origins[] = {"friend.example", "http://exact.example:81"};
    struct http_config config = http_config_default();
    const char *unix_path = NULL;
    struct err e;

    config.on_request = on_request;
    config.hosts = hosts;
    config.nhosts = ARRAY_LEN(hosts);
    config.origins = origins;
    config.norigins = ARRAY_LEN(origins);
    for (int i = 1; i < argc; i++) {
        if (set_option(&config, argv[i], &unix_path) < 0) {
            fprintf(stderr, "http_echo: what is %s?\n", argv[i]);
            return 2;
        }
    }
    uv_loop_init(&echo.loop);
    echo.server = http_server_new(&echo.loop, &config, &e);
    int unix_fd = unix_path == NULL ? -1 : listen_unix(unix_path);
    int fd = listen_tcp();
    if (echo.server == NULL || fd < 0 || http_server_listen(echo.server, fd, &e) < 0 ||
        (unix_path != NULL && http_server_listen(echo.server, unix_fd, &e) < 0)) {
        return 1;
    }
    uv_run(&echo.loop, UV_RUN_DEFAULT);
    return uv_loop_close(&echo.loop) == 0 ? 0 : 3;
}
