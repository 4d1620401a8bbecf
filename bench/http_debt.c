/* SPDX-License-Identifier: Apache-2.0 */
/* H6: whether twenty thousand requests that run code leave anything behind in the server. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "http_client.h"
#include "server.h"
#include "stock.h"

#define RUNS 20000
#define WARM_UP 2000
/*
 * Before it: sessions, and more clients than are measured. They fill what the launcher keeps for
 * the next boxes of a template, so that it cannot grow: as much as was ever in use at once.
 */
#define CROWD 150
#define CROWD_CLIENTS 64
#define CLIENTS_MAX 16
#define PATIENCE_MS 60000
#define REST_S 3 /* the pool is full again, what has ended is cleared away */
#define BODY "{\"code\":\"" CODE "\"}"

struct crowd {
    struct http_client *clients;
    struct pollfd polls[CROWD_CLIENTS];
    int n; /* of them are used */
};

static int take(struct crowd *c, int i, struct err *e)
{
    struct http_answer answer;

    if (http_receive(&c->clients[i], &answer, e) < 0) {
        return -1;
    }
    return answer.status == 200 && strstr(answer.body, "\"stdout\":\"2\\n\"") != NULL
               ? 0
               : err_set(e, ERR_PROTOCOL, "/run: %d %.200s", answer.status, answer.body);
}

/*
 * What a client has asked for is there: checked, and the next one asked for unless these were all.
 */
static int turn(struct crowd *c, int i, int *left, struct err *e)
{
    if (take(c, i, e) < 0) {
        return -1;
    }
    if (*left == 0) {
        return 0;
    }
    (*left)--;
    return http_send(&c->clients[i], "/run", BODY, e);
}

/* Every client has one request under way until so many were asked. */
static int run_many(struct crowd *c, int n, struct err *e)
{
    int left = n - c->n;

    for (int i = 0; i < c->n; i++) {
        if (http_send(&c->clients[i], "/run", BODY, e) < 0) {
            return -1;
        }
    }
    for (int answered = 0; answered < n;) {
        if (poll(c->polls, (nfds_t)c->n, PATIENCE_MS) <= 0) {
            return err_set(e, ERR_TIMEOUT, "no answer in a minute");
        }
        for (int i = 0; i < c->n; i++) {
            if (c->polls[i].revents == 0) {
                continue;
            }
            if (turn(c, i, &left, e) < 0) {
                return -1;
            }
            answered++;
        }
    }
    return 0;
}

static void rest(void)
{
    const struct timespec pause = {.tv_sec = REST_S};

    nanosleep(&pause, NULL);
}

static int spend(struct world *w, struct crowd *c, const struct server *server, struct err *e)
{
    struct stock before;
    struct stock after;

    c->n = CROWD_CLIENTS;
    if (sessions_come_and_go(server->port, CROWD, e) < 0 || run_many(c, WARM_UP, e) < 0) {
        return -1;
    }
    c->n = MIN(w->cores, CLIENTS_MAX);
    rest();
    if (stock_take(server->pid, &before, e) < 0) {
        return -1;
    }
    uint64_t begun = clock_ns();
    if (run_many(c, RUNS, e) < 0) {
        return -1;
    }
    fprintf(stderr, "    %.0f runs per second through /run, %d clients\n",
            RUNS / ((double)(clock_ns() - begun) / 1e9), c->n);
    rest();
    if (stock_take(server->pid, &after, e) < 0) {
        return -1;
    }
    stock_report(w, "H6", &before, &after);
    return 0;
}

/* The pool has one size from the start, so that what it keeps cannot grow. */
int bench_http_debt(struct world *w, struct err *e)
{
    struct crowd c = {.clients = calloc(CROWD_CLIENTS, sizeof(*c.clients))};
    struct server server;
    if (c.clients == NULL) {
        return err_set(e, ERR_SYSTEM, "out of memory");
    }
    int r = server_husk(w, (const char *const[]){"--pool-min", "16", "--pool-max", "16", NULL},
                        &server, e);
    for (int i = 0; i < CROWD_CLIENTS; i++) {
        c.clients[i].fd = -1;
        if (r == 0) {
            r = http_open(&c.clients[i], server.port, e);
        }
        c.polls[i] = (struct pollfd){.fd = c.clients[i].fd, .events = POLLIN};
    }
    if (r == 0) {
        r = spend(w, &c, &server, e);
    }
    for (int i = 0; i < CROWD_CLIENTS; i++) {
        http_close(&c.clients[i]);
    }
    free(c.clients);
    server_stop(&server);
    return r;
}
