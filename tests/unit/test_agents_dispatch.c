/* SPDX-License-Identifier: Apache-2.0 */
/* Which worker gets which request: sessions, and the requests of workers that die. */
#include <string.h>

#include "agents_fixture.h"
#include "tap.h"

#define DONE "{\"response\":\"ok\"}"
#define TEXT "{\"content\":\"a\"}"

static void open_with(uint32_t replicas, uint32_t max_in_flight, uint32_t retries)
{
    struct agent_plan plan = fixture_plan();

    plan.replicas = replicas;
    plan.max_in_flight = max_in_flight;
    plan.queue_length = 16;
    plan.retries = retries;
    fixture_open(&plan);
}

/* Its process ends; then a turn, in which its requests are given to others. */
static void end(const struct peer *peer)
{
    agents_on_exited(fixture.agents, peer->worker->number, 9 << 8, false);
    fixture_turn();
}

static void check_died(const struct question *q)
{
    CHECK(q->is_over);
    CHECK_INT(q->step, AGENT_STEP_FAILED);
    CHECK_INT(q->e.code, ERR_WORKER);
}

static void answer(const struct peer *peer, uint32_t id)
{
    peer_send(peer, AGENT_BEGUN, id, "");
    peer_send(peer, AGENT_DONE, id, DONE);
}

TEST(what_had_not_begun_moves_and_what_had_fails)
{
    struct question q[3] = {0};

    open_with(2, 3, 0);
    struct peer doomed = fixture_ready(0);
    for (int i = 0; i < 3; i++) {
        fixture_ask(&q[i], "{}");
    }
    uint32_t first = peer_expect(&doomed, AGENT_CALL);
    (void)peer_expect(&doomed, AGENT_CALL);
    (void)peer_expect(&doomed, AGENT_CALL);
    peer_send(&doomed, AGENT_BEGUN, first, "");
    struct peer other = fixture_ready(1);
    end(&doomed);
    check_died(&q[0]);
    CHECK(!q[1].is_over && !q[2].is_over);
    answer(&other, peer_expect(&other, AGENT_CALL));
    answer(&other, peer_expect(&other, AGENT_CALL));
    CHECK_STR(q[1].text, DONE);
    CHECK_STR(q[2].text, DONE);
    CHECK_INT(fixture_figures().errors, 1);
    fixture_close();
}

TEST(what_ends_worker_after_worker_runs_alone_and_then_fails)
{
    struct question suspect = {0};
    struct question other = {0};

    open_with(3, 4, 0);
    struct peer peers[] = {fixture_ready(0), fixture_ready(1)};
    fixture_ask(&suspect, "{}");
    (void)peer_expect(&peers[0], AGENT_CALL);
    end(&peers[0]);
    (void)peer_expect(&peers[1], AGENT_CALL);
    struct peer third = fixture_ready(2);
    end(&peers[1]);
    (void)peer_expect(&third, AGENT_CALL);
    fixture_ask(&other, "{}");
    fixture_turn();
    peer_expect_nothing(&third); /* there is room, but the suspect runs alone */
    end(&third);
    check_died(&suspect);
    CHECK(!other.is_over);
    question_leave(&other);
    fixture_close();
}

TEST(a_repeated_request_waits_for_a_worker_of_its_own)
{
    struct question busy = {0};
    struct question suspect = {0};
    struct question late = {0};

    open_with(2, 4, 1);
    struct peer doomed = fixture_ready(0);
    fixture_ask(&suspect, "{}");
    peer_send(&doomed, AGENT_BEGUN, peer_expect(&doomed, AGENT_CALL), "");
    struct peer other = fixture_ready(1);
    fixture_ask(&busy, "{}"); /* goes to the idle one */
    uint32_t busy_id = peer_expect(&other, AGENT_CALL);
    end(&doomed);
    fixture_ask(&late, "{}");
    fixture_turn();
    peer_expect_nothing(&other); /* kept for the suspect, which waits until it is idle */
    answer(&other, busy_id);
    uint32_t id = peer_expect(&other, AGENT_CALL);
    peer_expect_nothing(&other);
    answer(&other, id);
    CHECK_STR(suspect.text, DONE);
    CHECK(!late.is_over);
    answer(&other, peer_expect(&other, AGENT_CALL));
    CHECK_STR(late.text, DONE);
    fixture_close();
}

TEST(no_more_repetitions_than_the_plan_has)
{
    struct question q = {0};

    open_with(2, 1, 1);
    struct peer peers[] = {fixture_ready(0), fixture_ready(1)};
    fixture_ask(&q, "{}");
    peer_send(&peers[0], AGENT_BEGUN, peer_expect(&peers[0], AGENT_CALL), "");
    end(&peers[0]);
    peer_send(&peers[1], AGENT_BEGUN, peer_expect(&peers[1], AGENT_CALL), "");
    end(&peers[1]);
    check_died(&q);
    fixture_close();
}

TEST(an_answer_that_was_seen_in_part_is_not_repeated)
{
    struct question q = {0};

    open_with(2, 1, 1);
    struct peer peers[] = {fixture_ready(0), fixture_ready(1)};
    fixture_ask(&q, "{}");
    peer_send(&peers[0], AGENT_TEXT, peer_expect(&peers[0], AGENT_CALL), TEXT);
    end(&peers[0]);
    check_died(&q);
    peer_expect_nothing(&peers[1]);
    fixture_close();
}

TEST(a_worker_that_is_killed_may_have_begun_everything)
{
    struct question q = {0};

    open_with(2, 1, 0);
    struct peer peers[] = {fixture_ready(0), fixture_ready(1)};
    fixture_ask(&q, "{}");
    (void)peer_expect(&peers[0], AGENT_CALL);
    peer_send(&peers[0], AGENT_DONE, 4711, DONE); /* of no request: it broke the protocol */
    check_died(&q);
    peer_expect_nothing(&peers[1]);
    fixture_close();
}

TEST(a_moved_request_ends_with_its_client_and_with_the_server)
{
    struct question left = {0};
    struct question stopped = {0};

    open_with(1, 2, 0);
    struct peer peer = fixture_ready(0);
    fixture_ask(&left, "{}");
    end(&peer);
    CHECK_INT(fixture_figures().queued, 1);
    question_leave(&left);
    CHECK(left.is_over);
    CHECK_INT(fixture_figures().queued, 0);

    fixture_wait_starts(2);
    peer = fixture_ready(0);
    fixture_ask(&stopped, "{}");
    agents_stop(fixture.agents);
    end(&peer);
    check_died(&stopped);
    fixture_close();
}

TEST(requests_of_a_session_go_to_one_worker)
{
    struct question q[8] = {0};

    open_with(2, 8, 0);
    struct peer peers[] = {fixture_ready(0), fixture_ready(1)};
    for (int i = 0; i < 8; i++) {
        q[i].session = "a";
        fixture_ask(&q[i], "{}");
    }
    int home = peers[0].worker->in_flight == 8 ? 0 : 1;
    CHECK_INT(peers[home].worker->in_flight, 8);
    for (int i = 0; i < 8; i++) {
        answer(&peers[home], peer_expect(&peers[home], AGENT_CALL));
        CHECK_STR(q[i].text, DONE);
    }
    fixture_close();
}

TEST(a_session_waits_for_its_worker_and_others_pass)
{
    struct question q[3] = {0};

    open_with(2, 1, 0);
    struct peer peers[] = {fixture_ready(0), fixture_ready(1)};
    q[0].session = "a";
    q[1].session = "a";
    fixture_ask(&q[0], "{}");
    int home = peers[0].worker->in_flight == 1 ? 0 : 1;
    uint32_t first = peer_expect(&peers[home], AGENT_CALL);
    fixture_ask(&q[1], "{}");
    CHECK_INT(fixture_figures().queued, 1);
    fixture_ask(&q[2], "{}");
    fixture_turn();
    answer(&peers[1 - home], peer_expect(&peers[1 - home], AGENT_CALL));
    CHECK_STR(q[2].text, DONE);
    answer(&peers[home], first);
    answer(&peers[home], peer_expect(&peers[home], AGENT_CALL));
    CHECK_STR(q[1].text, DONE);
    fixture_close();
}

TEST(a_session_whose_worker_is_gone_gets_another)
{
    struct question q[2] = {0};

    open_with(2, 1, 0);
    struct peer peers[] = {fixture_ready(0), fixture_ready(1)};
    q[0].session = "a";
    q[1].session = "a";
    fixture_ask(&q[0], "{}");
    int home = peers[0].worker->in_flight == 1 ? 0 : 1;
    answer(&peers[home], peer_expect(&peers[home], AGENT_CALL));
    end(&peers[home]);
    fixture_ask(&q[1], "{}");
    fixture_turn();
    answer(&peers[1 - home], peer_expect(&peers[1 - home], AGENT_CALL));
    CHECK_STR(q[1].text, DONE);
    fixture_close();
}
