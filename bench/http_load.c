/* SPDX-License-Identifier: Apache-2.0 */
/* The load generator; see http_load.h. */
#include "http_load.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "http_client.h"

#define EVENTS_MAX 256
#define ANSWER_MAX 2048 /* of a small page, head included */
#define OK "HTTP/1.1 200"
#define SILENCE_MS 10000

struct line {
    int fd;
    size_t len; /* of the answer, as far as it has come */
    char data[ANSWER_MAX + 1];
};

struct run {
    const struct http_load *load;
    struct line *lines;
    int epoll;
    char request[512];
    size_t request_len;
    uint64_t answers;
};

static int ask(struct run *run, struct line *line, struct err *e)
{
    line->len = 0;
    ssize_t n = send(line->fd, run->request, run->request_len, MSG_NOSIGNAL);
    return n == (ssize_t)run->request_len ? 0 : err_sys(e, n < 0 ? errno : EAGAIN, "send");
}

static int open_lines(struct run *run, struct err *e)
{
    static struct http_client client;

    for (int i = 0; i < run->load->connections; i++) {
        struct line *line = &run->lines[i];
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = line};
        if (http_open(&client, run->load->port, e) < 0) {
            return -1;
        }
        line->fd = take_fd(&client.fd);
        int r = fd_set_nonblock(line->fd, true);
        if (r < 0 || epoll_ctl(run->epoll, EPOLL_CTL_ADD, line->fd, &event) < 0) {
            return err_sys(e, r < 0 ? -r : errno, "epoll");
        }
    }
    return 0;
}

static int take(struct run *run, struct line *line, struct err *e)
{
    struct http_answer answer;

    ssize_t n = recv(line->fd, line->data + line->len, ANSWER_MAX - line->len, 0);
    if (n <= 0) {
        return n < 0 && errno == EAGAIN
                   ? 0
                   : err_sys(e, n < 0 ? errno : EPIPE, "the server ended a connection");
    }
    line->len += (size_t)n;
    int r = http_parse(line->data, line->len, &answer, e);
    if (r <= 0) {
        return r;
    }
    if (memcmp(line->data, OK, sizeof(OK) - 1) != 0 || line->len != answer.whole) {
        return err_set(e, ERR_PROTOCOL, "it answered %.100s", line->data);
    }
    run->answers++;
    return ask(run, line, e);
}

static int serve(struct run *run, uint64_t until, struct err *e)
{
    struct epoll_event events[EVENTS_MAX];

    while (clock_ns() < until) {
        int n = epoll_wait(run->epoll, events, EVENTS_MAX, SILENCE_MS);
        if (n <= 0) {
            return n < 0 ? err_sys(e, errno, "epoll")
                         : err_set(e, ERR_TIMEOUT, "the server is silent");
        }
        for (int i = 0; i < n; i++) {
            if (take(run, events[i].data.ptr, e) < 0) {
                return -1;
            }
        }
    }
    return 0;
}

static int load(struct run *run, double *ret, struct err *e)
{
    if (open_lines(run, e) < 0) {
        return -1;
    }
    uint64_t begun = clock_ns();
    for (int i = 0; i < run->load->connections; i++) {
        if (ask(run, &run->lines[i], e) < 0) {
            return -1;
        }
    }
    int r = serve(run, begun + (uint64_t)(run->load->seconds * 1e9), e);
    *ret = (double)run->answers / ((double)(clock_ns() - begun) / 1e9);
    return r;
}

int http_load_once(void *user, double *ret, struct err *e)
{
    const struct http_load *l = user;
    struct run run = {.load = l, .epoll = epoll_create1(EPOLL_CLOEXEC)};

    run.lines = calloc((size_t)l->connections, sizeof(*run.lines));
    run.request_len = http_request(run.request, sizeof(run.request), l->port, l->target, l->body);
    if (run.lines == NULL || run.epoll < 0 || run.request_len == 0) {
        free(run.lines);
        fd_close(&run.epoll);
        return err_sys(e, ENOMEM, "prepare the load");
    }
    for (int i = 0; i < l->connections; i++) {
        run.lines[i].fd = -1;
    }
    int r = load(&run, ret, e);
    for (int i = 0; i < l->connections; i++) {
        fd_close(&run.lines[i].fd);
    }
    fd_close(&run.epoll);
    free(run.lines);
    return r;
}
