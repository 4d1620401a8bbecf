/* SPDX-License-Identifier: Apache-2.0 */
/* P11, H1 and H2: how long a client waits for one piece of code over HTTP. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/str.h"
#include "echo.h"
#include "http_client.h"
#include "match.h"
#include "server.h"
#include "subject.h"

#define CHUNK 20
#define PEER_CHUNK 10
#define FULL_MS 20000
#define SLICE_NS 1000000L
#define RUN_BODY "{\"code\":\"" CODE "\"}"

/* One kind of request, on a connection of its own. */
struct caller {
    struct http_client client;
    const char *target;
    const char *body;
    bool pooled; /* uses up a parked box: the next one starts with a full pool again */
};

/* More boxes than a chunk uses up; the session of H2 lives on defaults. */
static const char *const pool_flags[] = {"--pool-min", "24", "--pool-max", "48", NULL};

static bool output_is(const struct http_answer *answer, const char *expect)
{
    json_t *whole = json_loadb(answer->body, answer->len, 0, NULL);
    bool same = str_eq(json_string_value(json_object_get(whole, "stdout")), expect);

    json_decref(whole);
    return same;
}

static double member(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

/* 1: every pool has as many boxes as it wants and makes no more; 0: not yet; -1. */
static int pools_are_full(struct caller *c, struct err *e)
{
    struct http_answer answer;
    size_t i;
    json_t *pool;
    int full = 1;

    if (http_call(&c->client, "/api/v1/pool", NULL, 200, &answer, e) < 0) {
        return -1;
    }
    json_t *whole = json_loadb(answer.body, answer.len, 0, NULL);
    json_array_foreach(json_object_get(whole, "pools"), i, pool)
    {
        if (member(pool, "starting") > 0 || member(pool, "size") < member(pool, "min")) {
            full = 0;
        }
    }
    json_decref(whole);
    return full;
}

static int wait_full(struct caller *c, struct err *e)
{
    const struct timespec slice = {.tv_nsec = SLICE_NS};
    uint64_t until = clock_ms() + FULL_MS;
    int r;

    while ((r = pools_are_full(c, e)) == 0) {
        if (clock_ms() > until) {
            return err_set(e, ERR_TIMEOUT, "a pool does not become full: %.300s",
                           strstr(c->client.data, "\r\n\r\n"));
        }
        nanosleep(&slice, NULL);
    }
    return r < 0 ? -1 : 0;
}

static int call_once(void *user, double *ret, struct err *e)
{
    struct caller *c = user;
    struct http_answer answer;

    uint64_t begun = clock_ns();
    if (http_call(&c->client, c->target, c->body, 200, &answer, e) < 0) {
        return -1;
    }
    *ret = (double)(clock_ns() - begun) / 1e6;
    if (!output_is(&answer, CODE_OUTPUT)) {
        return err_set(e, ERR_PROTOCOL, "%s answered %.200s", c->target, answer.body);
    }
    return c->pooled ? wait_full(c, e) : 0;
}

static struct contender contender_of(const char *name, struct caller *c)
{
    return (struct contender){
        .name = name, .unit = "ms", .chunk = CHUNK, .once = call_once, .user = c};
}

static void say_pool(struct caller *c)
{
    struct http_answer answer;
    struct err ignored;
    size_t i;
    json_t *pool;

    if (http_call(&c->client, "/api/v1/pool", NULL, 200, &answer, &ignored) < 0) {
        return;
    }
    json_t *whole = json_loadb(answer.body, answer.len, 0, NULL);
    json_array_foreach(json_object_get(whole, "pools"), i, pool)
    {
        fprintf(stderr, "    pool of %s, %s: %.0f hits, %.0f misses\n",
                json_string_value(json_object_get(pool, "template_id")),
                json_string_value(json_object_get(pool, "mode")), member(pool, "hits"),
                member(pool, "misses"));
    }
    json_decref(whole);
}

/* ---- P11 ---- */

static struct summary difference(const struct summary *a, const struct summary *b)
{
    return (struct summary){
        .n = a->n, .min = a->min - b->min, .p50 = a->p50 - b->p50, .p99 = a->p99 - b->p99};
}

static void report_tax(struct world *w, const struct contender all[3], const char *what,
                       struct bar bar)
{
    struct row row = {.id = "P11",
                      .unit = "ms",
                      .peer_name = "TCP loopback round trip",
                      .ours = difference(&all[0].summary, &all[1].summary),
                      .peer = all[2].summary,
                      .bar = bar};

    (void)str_copy(row.what, sizeof(row.what), what);
    report_add(&w->report, &row);
}

static int race_tax(struct world *w, struct caller *caller, struct subject *s, struct echo *echo,
                    struct err *e)
{
    struct contender all[] = {
        contender_of("husk, POST /run", caller),
        {.name = "husk, library",
         .unit = "ms",
         .chunk = CHUNK,
         .prepare = subject_fill,
         .once = subject_once,
         .user = s},
        {.name = "TCP loopback round trip",
         .unit = "ms",
         .chunk = CHUNK,
         .once = echo_once,
         .user = echo},
    };

    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        all[i].rested = true;
    }
    if (wait_full(caller, e) < 0 || race_run(all, ARRAY_LEN(all), RACE_ROUNDS, e) < 0) {
        return -1;
    }
    report_tax(w, all, "API tax", AT_MOST(8, 4));
    say_pool(caller);
    return 0;
}

int bench_api_tax(struct world *w, struct err *e)
{
    static struct caller caller = {
        .client = {.fd = -1}, .target = "/run", .body = RUN_BODY, .pooled = true};
    struct subject s = {
        .world = w, .template_name = "python", .code = CODE, .expect = CODE_OUTPUT, .warm = true};
    struct echo echo = {.socket = -1};
    struct server server;

    int r = echo_tcp(&echo, e);
    if (r == 0) {
        r = subject_open(&s, CHUNK, e);
    }
    if (r == 0 && (r = server_husk(w, pool_flags, &server, e)) == 0) {
        r = http_open(&caller.client, server.port, e);
        if (r == 0) {
            r = race_tax(w, &caller, &s, &echo, e);
        }
        http_close(&caller.client);
        server_stop(&server);
    }
    subject_close(&s);
    echo_close(&echo);
    return r;
}

/* ---- H1 ---- */

static int match_run_request(struct world *w, struct caller *ours, struct caller *reference,
                             const char *absent, struct err *e)
{
    static struct peer exec_true;

    peer_true(&exec_true);
    struct opponent fastapi = {.contender = contender_of("FastAPI+subprocess+bwrap", reference),
                               .absent = absent,
                               .bar = AT_MOST(1 / 30.0, 1 / 60.0)};
    fastapi.contender.chunk = PEER_CHUNK;
    struct match m = {
        .id = "H1",
        .what = "POST /run",
        .rested = true,
        .ours = contender_of("husk, POST /run", ours),
        .opponents = {opponent_of(&exec_true, CHUNK, AT_MOST(0.7, 0.6)), fastapi},
        .n = 2,
    };
    if (wait_full(ours, e) < 0 || match_run(w, &m, e) < 0) {
        return -1;
    }
    say_pool(ours);
    return 0;
}

int bench_http_run(struct world *w, struct err *e)
{
    static struct caller ours = {
        .client = {.fd = -1}, .target = "/run", .body = RUN_BODY, .pooled = true};
    static struct caller reference = {.client = {.fd = -1}, .target = "/run", .body = RUN_BODY};
    struct server husk;
    struct server fastapi;
    struct err absent = {0};
    double ignored;

    bool there = server_fastapi(w, &fastapi, &absent) == 0 &&
                 http_open(&reference.client, fastapi.port, &absent) == 0 &&
                 call_once(&reference, &ignored, &absent) == 0;
    int r = server_husk(w, pool_flags, &husk, e);
    if (r == 0) {
        r = http_open(&ours.client, husk.port, e);
    }
    if (r == 0) {
        r = match_run_request(w, &ours, &reference, there ? NULL : absent.msg, e);
    }
    http_close(&ours.client);
    http_close(&reference.client);
    server_stop(&husk);
    server_stop(&fastapi);
    return r;
}

/* ---- H2 ---- */

static int race_sessions(struct world *w, struct caller *plain, struct caller *durable,
                         struct err *e)
{
    static struct peer exec_true;

    peer_true(&exec_true);
    struct opponent peer = opponent_of(&exec_true, CHUNK, AT_MOST(0.30, 0.25));
    struct contender all[] = {contender_of("husk, execute_code", plain),
                              contender_of("husk, execute-sync", durable), peer.contender};
    if (race_run(all, ARRAY_LEN(all), RACE_ROUNDS, e) < 0) {
        return -1;
    }
    peer.contender = all[2];
    match_report(w, &(struct match){.id = "H2",
                                    .what = "cell over HTTP, execute_code",
                                    .ours = all[0],
                                    .opponents = {peer},
                                    .n = 1});
    peer.bar = NO_BAR;
    match_report(w, &(struct match){.id = "H2",
                                    .what = "cell over HTTP, durable record",
                                    .ours = all[1],
                                    .opponents = {peer},
                                    .n = 1});
    return 0;
}

int bench_http_cell(struct world *w, struct err *e)
{
    static struct caller plain = {
        .client = {.fd = -1}, .target = "/workspace/se/execute_code/bench", .body = RUN_BODY};
    static struct caller durable = {
        .client = {.fd = -1}, .target = "/api/v1/sessions/bench-v1/execute-sync", .body = RUN_BODY};
    struct http_answer answer;
    struct server husk;
    double ignored;

    int r = server_husk(w, (const char *const[]){NULL}, &husk, e);
    if (r == 0) {
        r = http_open(&plain.client, husk.port, e);
    }
    if (r == 0) {
        r = http_open(&durable.client, husk.port, e);
    }
    if (r == 0) {
        r = http_call(&durable.client, "/api/v1/sessions",
                      "{\"id\":\"bench-v1\",\"mode\":\"persistent\",\"template_id\":\"python\"}",
                      201, &answer, e);
    }
    if (r == 0 && (r = call_once(&plain, &ignored, e)) == 0) { /* makes the session */
        r = race_sessions(w, &plain, &durable, e);
    }
    http_close(&plain.client);
    http_close(&durable.client);
    server_stop(&husk);
    return r;
}
