/* SPDX-License-Identifier: Apache-2.0 */
/*
 * H4 and H5: many persistent sessions over HTTP: what each occupies, and how a burst of them is
 * served.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/str.h"
#include "host.h"
#include "http_client.h"
#include "server.h"

#define BURST 100
#define CROWD 1000
#define CROWD_BATCH 20
#define PATIENCE_MS 120000
#define IDLE_S 3
#define BOX_GENERATION 3 /* husk up starts the launcher, it starts the zygote, that starts boxes */

/* One client: makes a session, then runs a cell in it. */
struct guest {
    struct http_client client;
    char target[96];
    uint64_t begun;
    bool made;
    bool done;
};

struct burst {
    struct guest *guests;
    struct pollfd *polls;
    int n;
    struct samples took; /* ms from the first byte to the cell's result */
};

static void burst_release(struct burst *b)
{
    for (int i = 0; b->guests != NULL && i < b->n; i++) {
        http_close(&b->guests[i].client);
    }
    free(b->guests);
    free(b->polls);
    samples_release(&b->took);
}

static int burst_open(struct burst *b, int n, uint16_t port, struct err *e)
{
    *b = (struct burst){.n = n};
    b->guests = calloc((size_t)n, sizeof(*b->guests));
    b->polls = calloc((size_t)n, sizeof(*b->polls));
    if (b->guests == NULL || b->polls == NULL) {
        return err_sys(e, ENOMEM, "clients");
    }
    for (int i = 0; i < n; i++) {
        b->guests[i].client.fd = -1;
    }
    for (int i = 0; i < n; i++) {
        if (http_open(&b->guests[i].client, port, e) < 0) {
            return -1;
        }
        b->polls[i] = (struct pollfd){.fd = b->guests[i].client.fd, .events = POLLIN};
    }
    return 0;
}

/* An answer is there: to the creation, then to the cell. */
static int advance(struct burst *b, struct guest *g, struct err *e)
{
    struct http_answer answer;

    if (http_receive(&g->client, &answer, e) < 0) {
        return -1;
    }
    if (answer.status != (g->made ? 200 : 201)) {
        return err_set(e, ERR_PROTOCOL, "%s: %d %.200s", g->made ? g->target : "create",
                       answer.status, answer.body);
    }
    if (!g->made) {
        g->made = true;
        return http_send(&g->client, g->target, "{\"code\":\"" CODE "\"}", e);
    }
    if (strstr(answer.body, "\"stdout\":\"2\\n\"") == NULL) {
        return err_set(e, ERR_PROTOCOL, "%s: %.200s", g->target, answer.body);
    }
    g->done = true;
    return samples_add(&b->took, (double)(clock_ns() - g->begun) / 1e6) < 0
               ? err_sys(e, ENOMEM, "samples")
               : 0;
}

static int ask_all(struct burst *b, int first, struct err *e)
{
    char body[160];

    for (int i = 0; i < b->n; i++) {
        struct guest *g = &b->guests[i];
        (void)str_format(body, sizeof(body),
                         "{\"id\":\"bench-%d\",\"mode\":\"persistent\",\"template_id\":\"python\","
                         "\"timeout\":3600}",
                         first + i);
        (void)str_format(g->target, sizeof(g->target), "/api/v1/sessions/bench-%d/execute-sync",
                         first + i);
        g->made = g->done = false;
        g->begun = clock_ns();
        if (http_send(&g->client, "/api/v1/sessions", body, e) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Sessions first to first + n - 1, all asked for at once. Any failure is one of the whole. */
static int burst_run(struct burst *b, int first, struct err *e)
{
    uint64_t until = clock_ms() + PATIENCE_MS;
    int left = b->n;

    if (ask_all(b, first, e) < 0) {
        return -1;
    }
    while (left > 0) {
        if (poll(b->polls, (nfds_t)b->n, 1000) < 0 || clock_ms() > until) {
            return err_set(e, ERR_TIMEOUT, "%d sessions have no answer", left);
        }
        for (int i = 0; i < b->n; i++) {
            if (b->polls[i].revents == 0 || b->guests[i].done) {
                continue;
            }
            if (advance(b, &b->guests[i], e) < 0) {
                return -1;
            }
            left -= b->guests[i].done;
        }
    }
    return 0;
}

static void idle(void)
{
    const struct timespec pause = {.tv_sec = IDLE_S};

    nanosleep(&pause, NULL);
}

int sessions_come_and_go(uint16_t port, int n, struct err *e)
{
    struct burst b;
    char target[64];

    int r = burst_open(&b, n, port, e);
    if (r == 0) {
        r = burst_run(&b, 0, e);
    }
    for (int i = 0; i < n && r == 0; i++) {
        (void)str_format(target, sizeof(target), "/api/v1/sessions/bench-%d", i);
        r = http_delete(&b.guests[i].client, target, e);
    }
    burst_release(&b);
    return r;
}

/* ---- H5 ---- */

int bench_session_burst(struct world *w, struct err *e)
{
    struct server server;
    struct burst b = {0};

    int r = server_husk(w, (const char *const[]){NULL}, &server, e);
    if (r == 0) {
        r = burst_open(&b, BURST, server.port, e);
    }
    if (r == 0) {
        idle(); /* pools fill */
        r = burst_run(&b, 0, e);
    }
    if (r == 0) {
        struct row row = {.id = "H5",
                          .what = "one of 100 new sessions, first run",
                          .unit = "ms",
                          .ours = samples_summary(&b.took)};
        fprintf(stderr, "    %-24s min %9.3f  p50 %9.3f  p99 %9.3f ms  (%zu), no failure\n",
                "husk, burst of sessions", row.ours.min, row.ours.p50, row.ours.p99, row.ours.n);
        report_add(&w->report, &row);
    }
    burst_release(&b);
    server_stop(&server);
    return r;
}

/* ---- H4 ---- */

/* KB written by boxes, and by the processes that keep them. */
struct weight {
    struct host_memory kernel;
    double boxes;
    double keepers;
};

static int weigh(const struct server *server, struct weight *ret, struct err *e)
{
    static struct host_family family;

    *ret = (struct weight){.keepers = host_private_dirty(server->pid)};
    if (host_memory(&ret->kernel, e) < 0 || host_family(server->pid, &family, e) < 0) {
        return -1;
    }
    for (size_t i = 0; i < family.n; i++) {
        double dirty = host_private_dirty(family.members[i].pid);
        if (family.members[i].generation >= BOX_GENERATION) {
            ret->boxes += dirty;
        } else {
            ret->keepers += dirty;
        }
    }
    return 0;
}

static void report_weight(struct world *w, const struct weight *a, const struct weight *b)
{
    const struct host_memory *x = &a->kernel;
    const struct host_memory *y = &b->kernel;
    double boxes = (b->boxes - a->boxes) / CROWD;
    double keepers = (b->keepers - a->keepers) / CROWD;
    double slab = (y->reclaimable + y->unreclaimable - x->reclaimable - x->unreclaimable) / CROWD;
    double tables = (y->page_tables - x->page_tables) / CROWD;
    double stacks = (y->kernel_stack - x->kernel_stack) / CROWD;
    double sum = boxes + keepers + slab + tables + stacks;
    struct row row = {.id = "H4",
                      .what = "memory of an idle session, of 1,000",
                      .unit = "KB",
                      .ours = {.n = 1, .min = sum, .p50 = sum, .p99 = sum},
                      .bar = OURS_AT_MOST(3072, 2048)};

    fprintf(stderr,
            "    box %.0f  launcher and daemon %.0f  slab %.0f  page tables %.0f  stacks %.0f  "
            "(percpu %.0f) KB\n",
            boxes, keepers, slab, tables, stacks, (y->percpu - x->percpu) / CROWD);
    report_add(&w->report, &row);
}

static int gather(struct world *w, const struct server *server, struct burst *b, struct err *e)
{
    struct weight before;
    struct weight after;
    const pid_t launcher = server_child(server, "husk-launcher");
    const pid_t daemon = server_child(server, "huskd");

    idle();
    if (weigh(server, &before, e) < 0) {
        return -1;
    }
    for (int first = 0; first < CROWD; first += CROWD_BATCH) {
        if (burst_run(b, first, e) < 0) {
            return err_wrap(e, "after %d sessions (descriptors: launcher %zu, huskd %zu)", first,
                            host_descriptors(launcher, NULL), host_descriptors(daemon, NULL));
        }
    }
    idle();
    if (weigh(server, &after, e) < 0) {
        return -1;
    }
    fprintf(stderr, "    descriptors: launcher %zu, huskd %zu\n", host_descriptors(launcher, NULL),
            host_descriptors(daemon, NULL));
    report_weight(w, &before, &after);
    return 0;
}

int bench_session_memory(struct world *w, struct err *e)
{
    struct server server;
    struct burst b = {0};

    int r = server_husk(w, (const char *const[]){NULL}, &server, e);
    if (r == 0) {
        r = burst_open(&b, CROWD_BATCH, server.port, e);
    }
    if (r == 0) {
        r = gather(w, &server, &b, e);
    }
    burst_release(&b);
    server_stop(&server);
    return r;
}
