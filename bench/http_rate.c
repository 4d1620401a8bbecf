/* SPDX-License-Identifier: Apache-2.0 */
/* H3: how many requests a second the server answers when there is nothing to run, beside nginx. */
#include <stdio.h>

#include "base/clock.h"
#include "host.h"
#include "http_load.h"
#include "match.h"
#include "server.h"

#define CONNECTIONS 512
#define SECONDS 1.5

/* A load, and whose processor time says whether the server or the load generator was the limit. */
struct target {
    struct http_load load;
    pid_t pid;
    double cpu_ms;
    double wall_ms;
};

static int rate_once(void *user, double *ret, struct err *e)
{
    struct target *t = user;
    double cpu = host_cpu_ms(t->pid);
    uint64_t begun = clock_ns();

    int r = http_load_once(&t->load, ret, e);
    t->wall_ms += (double)(clock_ns() - begun) / 1e6;
    t->cpu_ms += host_cpu_ms(t->pid) - cpu;
    return r;
}

static struct contender contender_of(const char *name, struct target *t)
{
    return (struct contender){.name = name, .unit = "/s", .chunk = 1, .once = rate_once, .user = t};
}

static int race(struct world *w, struct target *ours, struct target *nginx, const char *absent,
                struct err *e)
{
    struct match m = {
        .id = "H3",
        .what = "GET /health, 512 connections",
        .ours = contender_of("husk", ours),
        .opponents = {{.contender = contender_of("nginx, static file", nginx),
                       .absent = absent,
                       .bar = AT_LEAST(0.5, 1)}},
        .n = 1,
    };

    int r = match_run(w, &m, e);
    fprintf(stderr,
            "    the servers were busy for %.0f %% (huskd) and %.0f %% (nginx) of the time\n",
            100 * ours->cpu_ms / MAX(ours->wall_ms, 1.0),
            100 * nginx->cpu_ms / MAX(nginx->wall_ms, 1.0));
    return r;
}

int bench_http_rate(struct world *w, struct err *e)
{
    const struct http_load load = {
        .target = "/health", .connections = CONNECTIONS, .seconds = SECONDS};
    struct target ours = {.load = load};
    struct target peer = {.load = load};
    struct err absent = {0};
    struct server husk;
    struct server nginx;

    bool there = server_nginx(w, &nginx, &absent) == 0;
    int r = server_husk(w, (const char *const[]){NULL}, &husk, e);
    if (r == 0) {
        ours.load.port = husk.port;
        ours.pid = server_child(&husk, "huskd");
        peer.load.port = nginx.port;
        peer.pid = there ? server_child(&nginx, "nginx") : 0;
        r = race(w, &ours, &peer, there ? NULL : absent.msg, e);
    }
    server_stop(&husk);
    server_stop(&nginx);
    return r;
}
