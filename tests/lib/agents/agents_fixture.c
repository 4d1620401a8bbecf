/* SPDX-License-Identifier: Apache-2.0 */
/* See agents_fixture.h. */
#include "agents_fixture.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "tap.h"

#define PAYLOAD_MAX 65536 /* of frames to a worker, in these tests */

struct fixture fixture;

/* ---- the supervisor ---- */

static int start(void *user, uint32_t agent, uint32_t worker)
{
    (void)user;
    CHECK_INT(agent, 0);
    CHECK(worker != 0);
    fixture.starts++;
    return fixture.start_result;
}

static int end(void *user, uint32_t worker, int signum)
{
    (void)user;
    CHECK(worker != 0);
    CHECK_INT(signum, SIGKILL);
    fixture.kills++;
    return 0;
}

/* ---- the whole ---- */

struct agent_plan fixture_plan(void)
{
    struct agent_plan plan = {.replicas = 1, .max_in_flight = 1, .request_timeout_ms = 60000};

    CHECK_INT(str_copy(plan.name, sizeof(plan.name), "fox"), 0);
    CHECK_INT(str_copy(plan.route_prefix, sizeof(plan.route_prefix), "/agents/fox"), 0);
    return plan;
}

void fixture_open(const struct agent_plan *plan)
{
    static const struct agents_starter starter = {.start = start, .kill = end};
    struct err e = {0};

    fixture.plan_row = *plan;
    fixture.plan = (struct agents_plan){.agents = &fixture.plan_row, .n_agents = 1};
    CHECK_INT(uv_loop_init(&fixture.loop), 0);
    fixture.agents = agents_open(&fixture.plan, &fixture.loop, &starter, &e);
    CHECK(fixture.agents != NULL);
    fixture.agent = agents_at(fixture.agents, 0);
    fixture_turn();
}

static void close_handle(uv_handle_t *handle, void *user)
{
    (void)user;
    if (!uv_is_closing(handle)) {
        uv_close(handle, NULL);
    }
}

void fixture_close(void)
{
    agents_stop(fixture.agents);
    for (size_t i = 0; i < fixture.agents->n_workers; i++) {
        worker_disconnect(&fixture.agents->workers[i]);
    }
    for (size_t i = 0; i < fixture.n_peers; i++) {
        fd_close(&fixture.peers[i]);
    }
    CHECK_INT(fiber_count(), 0);
    fiber_release();
    uv_walk(&fixture.loop, close_handle, NULL);
    CHECK_INT(uv_run(&fixture.loop, UV_RUN_DEFAULT), 0);
    CHECK_INT(uv_loop_close(&fixture.loop), 0);
    uv_library_shutdown(); /* closes the descriptors that libuv keeps for signals */
}

void fixture_turn(void)
{
    for (int i = 0; i < 3; i++) { /* a frame, the fiber that it wakes, and what that one sends */
        uv_run(&fixture.loop, UV_RUN_NOWAIT);
        fiber_run();
    }
}

void fixture_wait_starts(unsigned starts)
{
    while (fixture.starts < starts) {
        struct pollfd p = {.fd = uv_backend_fd(&fixture.loop), .events = POLLIN};
        (void)poll(&p, 1, uv_backend_timeout(&fixture.loop));
        uv_run(&fixture.loop, UV_RUN_NOWAIT);
    }
}

struct agent_figures fixture_figures(void)
{
    struct agent_figures figures;

    agent_figures(fixture.agent, &figures);
    return figures;
}

/* ---- a worker ---- */

struct peer fixture_connect(uint32_t index)
{
    struct worker *w = &fixture.agent->workers[index];
    int pair[2];

    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    CHECK(fixture.n_peers < FIXTURE_PEERS_MAX);
    fixture.peers[fixture.n_peers++] = pair[1];
    agents_on_started(fixture.agents, w->number, pair[0]);
    return (struct peer){.worker = w, .fd = pair[1]};
}

struct peer fixture_ready(uint32_t index)
{
    struct peer peer = fixture_connect(index);

    peer_send(&peer, AGENT_READY, 0, "{\"pid\":7,\"streams\":[]}");
    CHECK_INT(peer.worker->state, WORKER_WORKING);
    return peer;
}

void peer_write(const struct peer *peer, const void *bytes, size_t n)
{
    CHECK_INT(write(peer->fd, bytes, n), (ssize_t)n);
    fixture_turn();
}

void peer_send(const struct peer *peer, uint32_t type, uint32_t id, const char *payload)
{
    const struct agent_frame frame = {.len = (uint32_t)strlen(payload), .type = type, .id = id};
    AUTO_BUF struct buf b = BUF_INIT(AGENT_PAYLOAD_MAX);
    char head[AGENT_HEAD_SIZE];

    agent_frame_write(&frame, head);
    CHECK_INT(buf_add(&b, head, sizeof(head)), 0);
    CHECK_INT(buf_add(&b, payload, frame.len), 0);
    peer_write(peer, b.data, b.len);
}

static uint32_t number_at(const unsigned char *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

uint32_t peer_expect(const struct peer *peer, uint32_t type)
{
    static char payload[PAYLOAD_MAX];
    unsigned char head[AGENT_HEAD_SIZE];

    fixture_turn();
    CHECK_INT(read(peer->fd, head, sizeof(head)), AGENT_HEAD_SIZE);
    CHECK_INT(number_at(head + 4), type);
    uint32_t len = number_at(head);
    CHECK(len <= sizeof(payload));
    CHECK_INT(len == 0 ? 0 : read(peer->fd, payload, len), len);
    return number_at(head + 8);
}

void peer_expect_nothing(const struct peer *peer)
{
    char byte;

    fixture_turn();
    CHECK_INT(read(peer->fd, &byte, 1), -1);
    CHECK_INT(errno, EAGAIN);
}

/* ---- a client ---- */

static bool is_gone(void *user)
{
    const struct question *q = user;

    return q->is_gone;
}

static void take_answer(struct question *q, struct agent_answer *answer)
{
    size_t n = answer->len < sizeof(q->text) - 1 ? answer->len : sizeof(q->text) - 1;

    q->answers++;
    q->type = answer->type;
    memcpy(q->text, answer->data, n);
    q->text[n] = '\0';
    q->is_over = agent_frame_is_last(answer->type);
    agent_answer_free(answer);
}

static void ask(void *user)
{
    struct question *q = user;
    const struct agent_request request = {.type = AGENT_CALL,
                                          .payload = q->text,
                                          .len = strlen(q->text),
                                          .session = q->session,
                                          .is_gone = is_gone,
                                          .user = q};

    q->fiber = fiber_self();
    struct agent_call *call = agent_call_open(fixture.agent, &request, &q->e);
    if (call == NULL) {
        q->step = AGENT_STEP_FAILED;
        q->is_over = true;
        return;
    }
    while (!q->is_over) {
        struct agent_answer *answer = NULL;
        while (q->is_slow && !q->is_gone) {
            (void)fiber_poll(NULL, 0, -1);
        }
        q->step = agent_call_next(call, -1, &answer, &q->e);
        if (q->step == AGENT_STEP_ANSWER) {
            take_answer(q, answer);
        } else {
            q->is_over = true;
        }
    }
    agent_call_close(call);
}

void fixture_ask(struct question *q, const char *payload)
{
    CHECK_INT(str_copy(q->text, sizeof(q->text), payload), 0);
    CHECK_INT(fiber_start(ask, q), 0);
}

void question_leave(struct question *q)
{
    q->is_gone = true;
    fiber_wake(q->fiber);
    fixture_turn();
}

void question_take(struct question *q)
{
    q->is_slow = false;
    fiber_wake(q->fiber);
    fixture_turn();
}
