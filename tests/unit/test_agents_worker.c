/* SPDX-License-Identifier: Apache-2.0 */
/* Workers of served agents: start, health, protocol, restart and end. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "agents_fixture.h"
#include "base/clock.h"
#include "base/fd.h"
#include "tap.h"

static void open_plain(void)
{
    struct agent_plan plan = fixture_plan();

    fixture_open(&plan);
}

static void check_condemned(const struct peer *peer, const char *reason)
{
    CHECK_STR(peer->worker->reason, reason);
    CHECK_INT(peer->worker->state, WORKER_ENDING);
    CHECK(peer->worker->link == NULL);
    CHECK(fixture.kills > 0);
}

/* The pause before the next start is over. */
static void end_pause(struct worker *w)
{
    unsigned starts = fixture.starts;

    w->state_ms -= w->backoff_ms;
    worker_arm(w);
    fixture_wait_starts(starts + 1);
}

/* Makes what the timer waits for due now. */
static void make_due(struct worker *w, uint64_t *when)
{
    *when = clock_ms();
    worker_arm(w);
    fixture_turn();
}

TEST(an_agent_is_healthy_when_a_worker_is_ready)
{
    open_plain();
    CHECK_INT(fixture.starts, 1);
    CHECK_INT(fixture_figures().health, AGENT_STARTING);
    struct peer peer = fixture_connect(0);
    fixture_turn();
    CHECK_INT(fixture_figures().health, AGENT_STARTING);
    peer_send(&peer, AGENT_READY, 0, "{\"pid\":7,\"streams\":[]}");
    CHECK_INT(fixture_figures().health, AGENT_HEALTHY);
    CHECK_INT(fixture_figures().ready, 1);
    CHECK_INT(fixture.kills, 0);
    fixture_close();
}

TEST(a_frame_may_come_byte_by_byte)
{
    static const char payload[] = "{\"pid\":7,\"streams\":[]}";
    const struct agent_frame frame = {.len = sizeof(payload) - 1, .type = AGENT_READY};
    char head[AGENT_HEAD_SIZE];

    open_plain();
    struct peer peer = fixture_connect(0);
    agent_frame_write(&frame, head);
    for (size_t i = 0; i < sizeof(head); i++) {
        peer_write(&peer, head + i, 1);
    }
    for (size_t i = 0; i < frame.len; i++) {
        CHECK_INT(peer.worker->state, WORKER_STARTING);
        peer_write(&peer, payload + i, 1);
    }
    CHECK_INT(peer.worker->state, WORKER_WORKING);
    fixture_close();
}

static const struct {
    uint32_t type;
    uint32_t id;
    const char *payload;
    const char *reason;
} bad_frames[] = {
    {AGENT_READY, 0, "{\"pid\":7,\"streams\":[]}",
     "it broke the protocol: READY at the wrong time"},
    {AGENT_FAILED, 0, "{\"error\":\"x\",\"traceback\":\"y\"}",
     "it broke the protocol: FAILED at the wrong time"},
    {AGENT_READY, 0, "{}", "it broke the protocol: a frame of the wrong content"},
    {AGENT_DONE, 1, "{\"response\":\"x\"}",
     "it broke the protocol: a frame for a request that it does not have"},
    {AGENT_CALL, 1, "", "it broke the protocol: bytes that are no frame"},
    {AGENT_DONE, 0, "", "it broke the protocol: bytes that are no frame"},
};

TEST(a_worker_that_breaks_the_protocol_is_killed_and_replaced)
{
    open_plain();
    for (size_t i = 0; i < ARRAY_LEN(bad_frames); i++) {
        CASE("frame %zu", i);
        struct peer peer = fixture_ready(0);
        fixture.kills = 0;
        peer_send(&peer, bad_frames[i].type, bad_frames[i].id, bad_frames[i].payload);
        check_condemned(&peer, bad_frames[i].reason);
        agents_on_exited(fixture.agents, peer.worker->number, SIGKILL, false);
        CHECK_STR(fixture_figures().failure, bad_frames[i].reason);
        end_pause(peer.worker);
    }
    fixture_close();
}

TEST(an_idle_worker_is_pinged)
{
    open_plain();
    struct peer peer = fixture_ready(0);
    peer_expect_nothing(&peer);
    make_due(peer.worker, &peer.worker->ping_at);
    CHECK_INT(peer_expect(&peer, AGENT_PING), 0);
    CHECK(peer.worker->pong_due != 0);
    peer_send(&peer, AGENT_PONG, 0, "");
    CHECK_INT(peer.worker->pong_due, 0);
    CHECK(peer.worker->ping_at > clock_ms());
    CHECK_INT(peer.worker->state, WORKER_WORKING);
    fixture_close();
}

TEST(an_idle_worker_without_a_pong_is_killed)
{
    open_plain();
    struct peer peer = fixture_ready(0);
    make_due(peer.worker, &peer.worker->ping_at);
    make_due(peer.worker, &peer.worker->pong_due);
    check_condemned(&peer, "it did not answer a ping");
    fixture_close();
}

TEST(a_busy_worker_may_be_late_with_its_pong)
{
    struct question q = {0};

    open_plain();
    struct peer peer = fixture_ready(0);
    fixture_ask(&q, "{}");
    uint32_t id = peer_expect(&peer, AGENT_CALL);
    make_due(peer.worker, &peer.worker->ping_at);
    make_due(peer.worker, &peer.worker->pong_due);
    CHECK_INT(peer.worker->state, WORKER_WORKING);
    peer_send(&peer, AGENT_DONE, id, "{\"response\":\"late\"}");
    CHECK(q.is_over);
    make_due(peer.worker, &peer.worker->pong_due);
    check_condemned(&peer, "it did not answer a ping");
    fixture_close();
}

TEST(a_worker_that_goes_on_with_cancelled_requests_is_killed)
{
    struct question q = {0};

    open_plain();
    struct peer peer = fixture_ready(0);
    fixture_ask(&q, "{}");
    uint32_t id = peer_expect(&peer, AGENT_CALL);
    question_leave(&q);
    CHECK_INT(q.step, AGENT_STEP_GONE);
    CHECK_INT(peer_expect(&peer, AGENT_CANCEL), id);
    make_due(peer.worker, &peer.worker->cancelled_due);
    check_condemned(&peer, "it went on with a request that was cancelled");
    fixture_close();
}

TEST(a_worker_that_does_not_get_ready_is_killed)
{
    open_plain();
    struct peer peer = fixture_connect(0);
    peer.worker->state_ms = clock_ms() - START_MS;
    worker_arm(peer.worker);
    fixture_turn();
    check_condemned(&peer, "it did not get ready within 300 s");
    fixture_close();
}

TEST(a_start_that_comes_too_late_is_killed_again)
{
    open_plain();
    worker_condemn(&fixture.agent->workers[0], "enough");
    struct peer peer = fixture_connect(0);
    CHECK(peer.worker->link == NULL);
    CHECK_INT(fixture.kills, 2);
    fixture_close();
}

TEST(how_a_worker_ended_is_told)
{
    static const struct {
        int status;
        bool out_of_memory;
        const char *failure;
    } ends[] = {
        {3 << 8, false, "WorkerDied: the agent's worker exited with code 3"},
        {0, false, "WorkerDied: the agent's worker exited with code 0"},
        {SIGSEGV, false, "WorkerDied: the agent's worker was ended by signal 11"},
        {(128 + SIGTERM) << 8, false, "WorkerDied: the agent's worker was ended by signal 15"},
        {SIGKILL, true, "WorkerDied: the agent's worker ran out of memory"},
    };

    open_plain();
    for (unsigned i = 0; i < ARRAY_LEN(ends); i++) {
        CASE("end %u", i);
        struct worker *w = &fixture.agent->workers[0];
        (void)fixture_ready(0);
        agents_on_exited(fixture.agents, w->number, ends[i].status, ends[i].out_of_memory);
        CHECK_STR(fixture_figures().failure, ends[i].failure);
        CHECK_INT(fixture_figures().health, AGENT_UNHEALTHY);
        CHECK_INT(w->state, WORKER_RESTING);
        CHECK_INT(w->number, 0);
        end_pause(w);
        CHECK_INT(fixture_figures().restarts, i + 1);
    }
    fixture_close();
}

TEST(each_failed_start_doubles_the_pause)
{
    open_plain();
    struct worker *w = &fixture.agent->workers[0];
    for (uint64_t pause = BACKOFF_FIRST_MS; w->backoff_ms < BACKOFF_MOST_MS; pause *= 2) {
        uint32_t number = w->number;
        agents_on_failed(fixture.agents, number, ENOENT);
        CHECK_STR(fixture_figures().failure, "WorkerDied: the agent's worker could not be started: "
                                             "No such file or directory");
        CHECK_INT(w->backoff_ms, MIN(pause, (uint64_t)BACKOFF_MOST_MS));
        end_pause(w);
        CHECK(w->number != number);
    }
    fixture_close();
}

TEST(a_worker_that_lived_long_is_replaced_after_the_first_pause)
{
    open_plain();
    struct peer peer = fixture_ready(0);
    peer.worker->backoff_ms = BACKOFF_MOST_MS;
    peer.worker->ready_ms = clock_ms() - HEALTHY_MS;
    agents_on_exited(fixture.agents, peer.worker->number, 0, false);
    CHECK_INT(peer.worker->backoff_ms, BACKOFF_FIRST_MS);
    fixture_close();
}

TEST(a_supervisor_that_takes_no_start_counts_as_a_failure)
{
    struct agent_plan plan = fixture_plan();

    fixture.start_result = -EPIPE;
    fixture_open(&plan);
    CHECK_STR(fixture_figures().failure,
              "WorkerDied: the agent's worker could not be asked for: Broken pipe");
    fixture_wait_starts(2);
    CHECK(fixture_figures().restarts >= 1);
    fixture_close();
}

TEST(a_worker_says_why_it_cannot_start)
{
    open_plain();
    struct peer peer = fixture_connect(0);
    peer_send(&peer, AGENT_FAILED, 0,
              "{\"error\":\"ImportError: no fox\",\"traceback\":\"line 1\"}");
    agents_on_exited(fixture.agents, peer.worker->number, 1 << 8, false);
    CHECK_STR(fixture_figures().failure, "ImportError: no fox");
    CHECK_INT(fixture_figures().health, AGENT_UNHEALTHY);
    fixture_close();
}

TEST(what_a_worker_said_last_is_read_after_its_end)
{
    struct question q = {0};

    open_plain();
    struct peer peer = fixture_ready(0);
    fixture_ask(&q, "{}");
    const struct agent_frame done = {
        .len = 17, .type = AGENT_DONE, .id = peer_expect(&peer, AGENT_CALL)};
    char frame[AGENT_HEAD_SIZE + 17];
    agent_frame_write(&done, frame);
    memcpy(frame + AGENT_HEAD_SIZE, "{\"response\":\"ok\"}", 17);
    CHECK_INT(write(peer.fd, frame, sizeof(frame)), (ssize_t)sizeof(frame));
    agents_on_exited(fixture.agents, peer.worker->number, 0, false);
    fixture_turn();
    CHECK_INT(q.step, AGENT_STEP_ANSWER);
    CHECK_STR(q.text, "{\"response\":\"ok\"}");
    fixture_close();
}

TEST(numbers_of_other_workers_are_ignored)
{
    int pair[2];
    char byte;

    open_plain();
    struct peer peer = fixture_ready(0);
    CHECK_INT(pipe2(pair, O_CLOEXEC), 0);
    agents_on_started(fixture.agents, peer.worker->number + 1, pair[1]);
    CHECK_INT(read(pair[0], &byte, 1), 0); /* closed */
    agents_on_failed(fixture.agents, peer.worker->number + 1, ENOENT);
    agents_on_exited(fixture.agents, 0, 0, false);
    CHECK_INT(peer.worker->state, WORKER_WORKING);
    fd_close(&pair[0]);
    fixture_close();
}

static bool has_ended;

static void end_all(void *user)
{
    (void)user;
    agents_end(fixture.agents, 60000);
    has_ended = true;
}

TEST(the_end_waits_for_workers_that_drain)
{
    struct question q = {0};

    open_plain();
    struct peer peer = fixture_ready(0);
    fixture_ask(&q, "{}");
    uint32_t id = peer_expect(&peer, AGENT_CALL);
    CHECK_INT(fiber_start(end_all, NULL), 0);
    CHECK_INT(peer_expect(&peer, AGENT_DRAIN), 0);
    CHECK_INT(peer.worker->state, WORKER_LEAVING);
    peer_send(&peer, AGENT_DONE, id, "{\"response\":\"ok\"}");
    CHECK_STR(q.text, "{\"response\":\"ok\"}");
    CHECK(!has_ended);
    agents_on_exited(fixture.agents, peer.worker->number, 0, false);
    fixture_turn();
    CHECK(has_ended);
    CHECK_INT(fixture.starts, 1);
    CHECK_INT(fixture.kills, 0);
    fixture_close();
}
