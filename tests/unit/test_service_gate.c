/* SPDX-License-Identifier: Apache-2.0 */
/* One at a time (service/gate.c): the line, time limits, cancelling. */
#include <errno.h>

#include "service/service_impl.h"
#include "tap.h"

#define LONG_MS 60000

/* One that waits at the local `gate`. */
#define GUEST(ms)                                                                                  \
    {                                                                                              \
        .gate = &gate, .timeout_ms = (ms)                                                          \
    }

struct guest_of_gate {
    struct gate *gate;
    int64_t timeout_ms;
    bool in_front;
    bool cancel;
    struct fiber *fiber;
    bool is_done;
    int result;
};

static int calls;
static const struct guest_of_gate *order[8];

static void enter(void *user)
{
    struct guest_of_gate *g = user;

    g->fiber = fiber_self();
    g->result = gate_wait(g->gate, g->timeout_ms, g->in_front, &g->cancel);
    g->is_done = true;
    order[calls++] = g;
}

static void start(struct guest_of_gate *g)
{
    CHECK_INT(fiber_start(enter, g), 0);
}

TEST(a_gate_lets_in_one_at_a_time)
{
    struct gate gate = {.is_taken = false};
    struct guest_of_gate g[2] = {GUEST(LONG_MS), GUEST(LONG_MS)};

    start(&g[0]);
    start(&g[1]);
    CHECK(g[0].is_done && !g[1].is_done);
    CHECK_INT(gate_position(&gate, g[1].fiber), 1);
    CHECK_INT(gate_position(&gate, NULL), 0);

    gate_leave(&gate);
    fiber_run_all();
    CHECK(g[1].is_done);
    CHECK_INT(g[1].result, 0);
    CHECK(gate.is_taken); /* the place was handed over */
    gate_leave(&gate);
    CHECK(!gate.is_taken);
    fiber_release();
}

TEST(the_line_is_first_come_first_served_but_for_those_in_front)
{
    struct gate gate = {.is_taken = false};
    struct guest_of_gate g[4] = {GUEST(LONG_MS), GUEST(LONG_MS), GUEST(LONG_MS)};

    g[3] = (struct guest_of_gate){.gate = &gate, .timeout_ms = LONG_MS, .in_front = true};
    for (size_t i = 0; i < ARRAY_LEN(g); i++) {
        start(&g[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(g); i++) {
        gate_leave(&gate);
        fiber_run();
    }
    CHECK(order[0] == &g[0] && order[1] == &g[3] && order[2] == &g[1] && order[3] == &g[2]);
    CHECK(!gate.is_taken);
    fiber_release();
}

TEST(a_wait_ends_with_its_time_or_when_it_is_cancelled)
{
    struct gate gate = {.is_taken = false};
    struct guest_of_gate holder = GUEST(LONG_MS);
    struct guest_of_gate hasty = GUEST(5);
    struct guest_of_gate leaver = GUEST(LONG_MS);

    start(&holder);
    start(&hasty);
    start(&leaver);
    leaver.cancel = true;
    fiber_wake(leaver.fiber);
    fiber_run_all();
    CHECK_INT(hasty.result, -ETIMEDOUT);
    CHECK_INT(leaver.result, -ECANCELED);
    CHECK(gate.first == NULL);
    CHECK(gate.is_taken);
    fiber_release();
}
