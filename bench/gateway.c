/* SPDX-License-Identifier: Apache-2.0 */
/* S3: how many requests a second reach an agent that does nothing, beside FastAPI under uvicorn. */
#include <string.h>

#include "http_client.h"
#include "http_load.h"
#include "match.h"
#include "server.h"

#define CONNECTIONS 32
#define SECONDS 1.5
#define BODY "{\"query\":\"hello\"}"
#define ANSWER "\"response\":\"hello\""

static struct contender contender_of(const char *name, struct http_load *load)
{
    return (struct contender){
        .name = name, .unit = "/s", .chunk = 1, .once = http_load_once, .user = load};
}

/* The load generator looks at status and length only; this looks at the words, once. */
static int check(uint16_t port, struct err *e)
{
    static struct http_client client;
    struct http_answer answer;

    if (http_open(&client, port, e) < 0) {
        return -1;
    }
    int r = http_call(&client, ECHO_TARGET, BODY, 200, &answer, e);
    if (r == 0 && strstr(answer.body, ANSWER) == NULL) {
        r = err_set(e, ERR_PROTOCOL, "the agent answered %.200s", answer.body);
    }
    http_close(&client);
    return r;
}

int bench_gateway(struct world *w, struct err *e)
{
    struct http_load ours = {
        .target = ECHO_TARGET, .body = BODY, .connections = CONNECTIONS, .seconds = SECONDS};
    struct http_load peer = ours;
    struct err absent = {0};
    struct server husk;
    struct server fastapi;

    bool there =
        server_fastapi_agent(w, &fastapi, &absent) == 0 && check(fastapi.port, &absent) == 0;
    int r = server_agent(w, &husk, e);
    if (r == 0 && (r = check(husk.port, e)) == 0) {
        ours.port = husk.port;
        peer.port = fastapi.port;
        struct match m = {
            .id = "S3",
            .what = "echo agent, 32 connections",
            .ours = contender_of("husk agents up", &ours),
            .opponents = {{.contender = contender_of("FastAPI+uvicorn", &peer),
                           .absent = there ? NULL : absent.msg,
                           .bar = AT_LEAST(1.5, 3)}},
            .n = 1,
        };
        r = match_run(w, &m, e);
    }
    server_stop(&husk);
    server_stop(&fastapi);
    return r;
}
