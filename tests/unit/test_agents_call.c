/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to served agents: workers for them, the queue, answers and failures. */
#include <string.h>

#include "agents_fixture.h"
#include "base/str.h"
#include "tap.h"

#define DONE "{\"response\":\"ok\"}"

static void open_with(uint32_t replicas, uint32_t max_in_flight, uint32_t queue_length)
{
    struct agent_plan plan = fixture_plan();

    plan.replicas = replicas;
    plan.max_in_flight = max_in_flight;
    plan.queue_length = queue_length;
    fixture_open(&plan);
}

static void check_failed(const struct question *q, enum err_code code, const char *msg)
{
    CHECK(q->is_over);
    CHECK_INT(q->step, AGENT_STEP_FAILED);
    CHECK_INT(q->e.code, code);
    CHECK_STR(q->e.msg, msg);
}

TEST(a_request_and_its_answer)
{
    struct question q = {0};

    open_with(1, 1, 0);
    struct peer peer = fixture_ready(0);
    fixture_ask(&q, "{}");
    CHECK_INT(fixture_figures().in_flight, 1);
    uint32_t id = peer_expect(&peer, AGENT_CALL);
    peer_send(&peer, AGENT_TEXT, id, "{\"content\":\"a\"}");
    CHECK_INT(q.answers, 1);
    CHECK(!q.is_over);
    peer_send(&peer, AGENT_DONE, id, DONE);
    CHECK(q.is_over);
    CHECK_INT(q.answers, 2);
    CHECK_STR(q.text, DONE);
    CHECK_INT(fixture_figures().in_flight, 0);
    CHECK_INT(fixture_figures().requests, 1);
    CHECK_INT(fixture_figures().errors, 0);
    peer_expect_nothing(&peer);
    fixture_close();
}

TEST(the_least_busy_worker_gets_the_request)
{
    struct question q[4] = {0};

    open_with(2, 2, 0);
    struct peer peers[] = {fixture_ready(0), fixture_ready(1)};
    for (int i = 0; i < 4; i++) {
        fixture_ask(&q[i], "{}");
        peer_send(&peers[i % 2], AGENT_TEXT, peer_expect(&peers[i % 2], AGENT_CALL),
                  "{\"content\":\"a\"}");
        CHECK_INT(q[i].answers, 1);
    }
    CHECK_INT(fixture_figures().in_flight, 4);
    for (int i = 0; i < 4; i++) {
        question_leave(&q[i]);
    }
    fixture_close();
}

TEST(requests_wait_in_their_order_and_no_more_than_may)
{
    struct question q[4] = {0};

    open_with(1, 1, 2);
    struct peer peer = fixture_ready(0);
    for (int i = 0; i < 4; i++) {
        fixture_ask(&q[i], "{}");
    }
    check_failed(&q[3], ERR_UNAVAILABLE,
                 "all workers of the agent \"fox\" are busy and 2 requests wait already");
    CHECK_INT(fixture_figures().queued, 2);
    for (int i = 0; i < 3; i++) {
        CHECK(!q[i].is_over);
        peer_send(&peer, AGENT_DONE, peer_expect(&peer, AGENT_CALL), DONE);
        CHECK(q[i].is_over);
    }
    CHECK_INT(fixture_figures().queued, 0);
    CHECK_INT(fixture_figures().requests, 4);
    CHECK_INT(fixture_figures().errors, 1);
    fixture_close();
}

TEST(a_client_that_leaves_the_queue_keeps_it_whole)
{
    open_with(1, 1, 9);
    struct peer peer = fixture_ready(0);
    for (int leaver = 1; leaver < 4; leaver++) {
        struct question q[4] = {0};
        CASE("leaver %d", leaver);
        for (int i = 0; i < 4; i++) {
            fixture_ask(&q[i], "{}");
        }
        question_leave(&q[leaver]);
        CHECK(q[leaver].is_over);
        CHECK_INT(q[leaver].e.code, ERR_NONE);
        CHECK_INT(fixture_figures().queued, 2);
        for (int i = 0; i < 4; i++) {
            if (i != leaver) {
                peer_send(&peer, AGENT_DONE, peer_expect(&peer, AGENT_CALL), DONE);
                CHECK_STR(q[i].text, DONE);
            }
        }
    }
    CHECK_INT(fixture_figures().errors, 0);
    fixture_close();
}

TEST(a_request_waits_for_the_first_worker)
{
    struct question q = {0};

    open_with(1, 1, 1);
    fixture_ask(&q, "{}");
    CHECK_INT(fixture_figures().queued, 1);
    struct peer peer = fixture_ready(0);
    peer_send(&peer, AGENT_DONE, peer_expect(&peer, AGENT_CALL), DONE);
    CHECK_STR(q.text, DONE);
    fixture_close();
}

TEST(requests_that_wait_fail_when_no_worker_can_start)
{
    static const char why[] = "the agent \"fox\" has no worker that is ready: ImportError: no fox";
    struct question q[2] = {0};

    open_with(1, 1, 1);
    fixture_ask(&q[0], "{}");
    struct peer peer = fixture_connect(0);
    peer_send(&peer, AGENT_FAILED, 0,
              "{\"error\":\"ImportError: no fox\",\"traceback\":\"line 1\"}");
    agents_on_exited(fixture.agents, peer.worker->number, 1 << 8, false);
    fixture_turn();
    check_failed(&q[0], ERR_UNAVAILABLE, why);
    fixture_ask(&q[1], "{}");
    check_failed(&q[1], ERR_UNAVAILABLE, why);
    CHECK_INT(fixture_figures().errors, 2);
    fixture_close();
}

TEST(an_agent_that_takes_too_long_is_cancelled_and_asked_for_a_pong)
{
    struct agent_plan plan = fixture_plan();
    struct question q = {0};

    plan.request_timeout_ms = 20;
    fixture_open(&plan);
    struct peer peer = fixture_ready(0);
    fixture_ask(&q, "{}");
    uint32_t id = peer_expect(&peer, AGENT_CALL);
    fiber_run_all();
    check_failed(&q, ERR_TIMEOUT, "the agent did not answer within 20 ms");
    CHECK_INT(peer_expect(&peer, AGENT_CANCEL), id);
    CHECK_INT(peer_expect(&peer, AGENT_PING), 0);
    CHECK(peer.worker->must_pong);
    CHECK_INT(fixture_figures().in_flight, 1); /* until the worker ends it */
    peer_send(&peer, AGENT_DONE, id, DONE);
    CHECK_INT(fixture_figures().in_flight, 0);
    fixture_close();
}

TEST(a_request_that_waits_too_long_for_a_busy_worker_fails)
{
    struct agent_plan plan = fixture_plan();
    struct question q[2] = {0};

    plan.request_timeout_ms = 20;
    plan.queue_length = 1;
    fixture_open(&plan);
    struct peer peer = fixture_ready(0);
    fixture_ask(&q[0], "{}");
    uint32_t id = peer_expect(&peer, AGENT_CALL);
    fixture_ask(&q[1], "{}");
    fiber_run_all();
    check_failed(&q[1], ERR_TIMEOUT, "the request waited too long for a worker");
    CHECK_INT(fixture_figures().queued, 0);
    peer_send(&peer, AGENT_DONE, id, DONE);
    fixture_close();
}

TEST(the_requests_of_a_worker_fail_with_it_and_no_others)
{
    struct question q[2] = {0};

    open_with(2, 1, 0);
    struct peer peers[] = {fixture_ready(0), fixture_ready(1)};
    fixture_ask(&q[0], "{}");
    fixture_ask(&q[1], "{}");
    uint32_t id = peer_expect(&peers[1], AGENT_CALL);
    peer_send(&peers[0], AGENT_BEGUN, peer_expect(&peers[0], AGENT_CALL), "");
    agents_on_exited(fixture.agents, peers[0].worker->number, 9 << 8, false);
    fixture_turn();
    check_failed(&q[0], ERR_WORKER, "WorkerDied: the agent's worker exited with code 9");
    peer_send(&peers[1], AGENT_DONE, id, DONE);
    CHECK_STR(q[1].text, DONE);
    CHECK_INT(fixture_figures().errors, 1);
    fixture_close();
}

TEST(an_answer_that_is_not_valid_fails_its_request_alone)
{
    struct question q[2] = {0};

    open_with(1, 2, 0);
    struct peer peer = fixture_ready(0);
    fixture_ask(&q[0], "{}");
    fixture_ask(&q[1], "{}");
    uint32_t first = peer_expect(&peer, AGENT_CALL);
    uint32_t second = peer_expect(&peer, AGENT_CALL);
    peer_send(&peer, AGENT_TEXT, first, "{\"content\":1}");
    check_failed(&q[0], ERR_WORKER,
                 "BadAnswer: the agent's worker sent an answer that is not valid");
    CHECK_INT(peer_expect(&peer, AGENT_CANCEL), first);
    peer_send(&peer, AGENT_DONE, second, DONE);
    CHECK_STR(q[1].text, DONE);
    CHECK_INT(peer.worker->state, WORKER_WORKING);
    fixture_close();
}

TEST(an_error_of_the_agent_is_an_answer)
{
    static const struct {
        const char *payload;
        uint64_t errors;
    } told[] = {
        {"{\"status\":422,\"type\":\"ValueError\",\"message\":\"no\"}", 0},
        {"{\"status\":500,\"type\":\"KeyError\",\"message\":\"\"}", 1},
    };

    open_with(1, 1, 0);
    struct peer peer = fixture_ready(0);
    for (size_t i = 0; i < ARRAY_LEN(told); i++) {
        struct question q = {0};
        fixture_ask(&q, "{}");
        peer_send(&peer, AGENT_ERROR, peer_expect(&peer, AGENT_CALL), told[i].payload);
        CHECK_INT(q.step, AGENT_STEP_ANSWER);
        CHECK_INT(q.type, AGENT_ERROR);
        CHECK_STR(q.text, told[i].payload);
        CHECK_INT(fixture_figures().errors, told[i].errors);
    }
    fixture_close();
}

TEST(a_late_frame_of_an_earlier_request_has_no_request)
{
    struct question q[2] = {0};

    open_with(1, 1, 0);
    struct peer peer = fixture_ready(0);
    fixture_ask(&q[0], "{}");
    uint32_t first = peer_expect(&peer, AGENT_CALL);
    peer_send(&peer, AGENT_DONE, first, DONE);
    fixture_ask(&q[1], "{}");
    CHECK(peer_expect(&peer, AGENT_CALL) != first);
    peer_send(&peer, AGENT_DONE, first, DONE);
    check_failed(&q[1], ERR_WORKER,
                 "WorkerDied: the agent's worker was killed: it broke the protocol: a frame for a "
                 "request that it does not have");
    fixture_close();
}

TEST(frames_of_a_cancelled_request_are_dropped)
{
    struct question q = {0};

    open_with(1, 1, 0);
    struct peer peer = fixture_ready(0);
    fixture_ask(&q, "{}");
    uint32_t id = peer_expect(&peer, AGENT_CALL);
    question_leave(&q);
    CHECK_INT(peer_expect(&peer, AGENT_CANCEL), id);
    peer_send(&peer, AGENT_TEXT, id, "{\"content\":\"a\"}");
    peer_send(&peer, AGENT_DONE, id, DONE);
    CHECK_INT(q.answers, 0);
    CHECK_INT(peer.worker->state, WORKER_WORKING);
    CHECK_INT(peer.worker->cancelled, 0);
    CHECK_INT(fixture_figures().in_flight, 0);
    fixture_close();
}

/* Sends frames until huskd reads no more. */
static void flood(const struct peer *peer, uint32_t id)
{
    static char text[32768];

    CHECK_INT(str_format(text, sizeof(text), "{\"content\":\"%032000d\"}", 0), 0);
    while (peer->worker->n_full == 0) {
        peer_send(peer, AGENT_TEXT, id, text);
    }
}

TEST(a_worker_is_not_read_while_its_client_takes_nothing)
{
    struct question q = {.is_slow = true};

    open_with(1, 1, 0);
    struct peer peer = fixture_ready(0);
    fixture_ask(&q, "{}");
    uint32_t id = peer_expect(&peer, AGENT_CALL);
    flood(&peer, id);
    CHECK(peer.worker->link->is_paused);
    CHECK(fixture.agent->backlog > BACKLOG_HIGH);
    question_take(&q);
    CHECK(!peer.worker->link->is_paused);
    CHECK_INT(fixture.agent->backlog, 0);
    peer_send(&peer, AGENT_DONE, id, DONE);
    CHECK_STR(q.text, DONE);
    fixture_close();
}

TEST(a_client_that_takes_nothing_for_long_loses_its_request)
{
    struct question q = {.is_slow = true};

    open_with(1, 1, 0);
    struct peer peer = fixture_ready(0);
    fixture_ask(&q, "{}");
    uint32_t id = peer_expect(&peer, AGENT_CALL);
    flood(&peer, id);
    peer.worker->full_ms -= STALL_MS;
    worker_arm(peer.worker);
    fixture_turn();
    CHECK(!peer.worker->link->is_paused);
    CHECK_INT(peer_expect(&peer, AGENT_CANCEL), id);
    question_take(&q);
    check_failed(&q, ERR_WORKER, "the client takes the answer too slowly");
    CHECK_INT(fixture.agent->backlog, 0);
    fixture_close();
}

static bool stays(void *user)
{
    (void)user;
    return false;
}

TEST(a_request_that_is_too_large_is_refused)
{
    const struct agent_request request = {
        .type = AGENT_CALL, .payload = "", .len = AGENT_PAYLOAD_MAX + 1, .is_gone = stays};
    struct err e = {0};

    open_with(1, 1, 0);
    CHECK(agent_call_open(fixture.agent, &request, &e) == NULL);
    CHECK_INT(e.code, ERR_TOO_LARGE);
    CHECK_INT(fixture_figures().errors, 0);
    fixture_close();
}

TEST(a_server_that_stops_takes_no_requests)
{
    struct question q = {0};

    open_with(1, 1, 1);
    (void)fixture_ready(0);
    agents_stop(fixture.agents);
    fixture_ask(&q, "{}");
    check_failed(&q, ERR_UNAVAILABLE, "the server stops");
    fixture_close();
}

TEST(agents_are_found_by_name_and_by_the_longest_prefix)
{
    static struct agent_plan rows[2];
    static const struct agents_plan plan = {.agents = rows, .n_agents = 2};
    static struct agent list[] = {{.plan = &rows[0]}, {.plan = &rows[1]}};
    struct agents agents = {.plan = &plan, .list = list, .n = 2};
    const char *rest;

    rows[0] = fixture_plan();
    rows[1] = fixture_plan();
    CHECK_INT(str_copy(rows[1].name, sizeof(rows[1].name), "cub"), 0);
    CHECK_INT(str_copy(rows[1].route_prefix, sizeof(rows[1].route_prefix), "/agents/fox/cub"), 0);
    CHECK(agents_find(&agents, "cub") == &list[1]);
    CHECK(agents_find(&agents, "hen") == NULL);
    CHECK(agents_find_path(&agents, "/agents/fox/cub/chat", &rest) == &list[1]);
    CHECK_STR(rest, "/chat");
    CHECK(agents_find_path(&agents, "/agents/fox/cubs", &rest) == &list[0]);
    CHECK_STR(rest, "/cubs");
    CHECK(agents_find_path(&agents, "/agents/foxes", &rest) == NULL);
    CHECK_STR(rest, "/agents/foxes");
}
