/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One served agent on a loop of its own, whose workers are played by the test: it sees what huskd
 * asks of the supervisor and sends, and writes what a worker would.
 *
 *     struct agent_plan plan = fixture_plan();
 *     fixture_open(&plan);
 *     struct peer peer = fixture_ready(0);
 *     struct question q = {0};
 *     fixture_ask(&q, "hello");
 *     uint32_t id = peer_expect(&peer, AGENT_CALL);
 *     peer_send(&peer, AGENT_DONE, id, "{\"response\":\"hi\"}");
 *     fixture_turn();                 q.text is the payload of the last answer
 *     fixture_close();
 */
#pragma once

#include "agents/agents_impl.h"

#define FIXTURE_PEERS_MAX 32

struct fixture {
    uv_loop_t loop;
    struct agent_plan plan_row;
    struct agents_plan plan;
    struct agents *agents;
    struct agent *agent;
    int start_result; /* what the supervisor answers to a start: 0 or -errno */
    unsigned starts;
    unsigned kills;
    int peers[FIXTURE_PEERS_MAX]; /* descriptors, closed by fixture_close() */
    size_t n_peers;
};

extern struct fixture fixture;

/* One worker that takes one request; nothing may wait. */
struct agent_plan fixture_plan(void);
void fixture_open(const struct agent_plan *plan);
void fixture_close(void);

/* One turn of the loop and of the fibers; does not wait. */
void fixture_turn(void);
/* Lets the loop wait for its timers until the supervisor was asked for that many starts. */
void fixture_wait_starts(unsigned starts);
struct agent_figures fixture_figures(void);

/* ---- a worker ---- */

struct peer {
    struct worker *worker;
    int fd; /* the worker's end */
};

struct peer fixture_connect(uint32_t index); /* the process runs and has said nothing yet */
struct peer fixture_ready(uint32_t index);
void peer_write(const struct peer *peer, const void *bytes, size_t n); /* and takes a turn */
void peer_send(const struct peer *peer, uint32_t type, uint32_t id, const char *payload);
/* The next frame must be of that type. Its payload is dropped. Returns the id. */
uint32_t peer_expect(const struct peer *peer, uint32_t type);
void peer_expect_nothing(const struct peer *peer);

/* ---- a client ---- */

struct question {
    bool is_gone; /* set by the test, with question_leave() */
    bool is_over;
    bool is_slow; /* takes answers only after question_take() */
    const char *session;
    unsigned answers;
    uint32_t type; /* of the last one */
    char text[256];
    enum agent_step step; /* the last one */
    struct err e;
    struct fiber *fiber;
};

/* Asks in a fiber until the answer is over, up to the first wait. */
void fixture_ask(struct question *q, const char *payload);
void question_leave(struct question *q);
void question_take(struct question *q);
