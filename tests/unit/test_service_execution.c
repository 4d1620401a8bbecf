/* SPDX-License-Identifier: Apache-2.0 */
/* Executions of service: their way to a terminal state, turns, the gate, quotas. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "base/units.h"
#include "core/core.h"
#include "service_fixture.h"
#include "tap.h"

static void reach_ends(struct fixture *f)
{
    struct session *s = fixture_create(f);

    fixture_check_end(fixture_begin(s, "exit 0"), EXECUTION_COMPLETED, 0);
    fixture_check_end(fixture_begin(s, "exit 7"), EXECUTION_FAILED, 7);
    struct execution *x = fixture_begin(s, "print hello");
    CHECK_INT(execution_wait(x, 10000), 0);
    CHECK(execution_is_durable(x));
    CHECK_STR(execution_result(x)->out, "hello");
    execution_release(x);
    x = fixture_begin(s, "value 42");
    CHECK_INT(execution_wait(x, 10000), 0);
    CHECK_STR(execution_result(x)->value, "42");
    const struct execution_entry fourth = {.live = x};
    CHECK_INT(execution_view(&fourth).number, 4);
    execution_release(x);
    fixture_end(f, s);
}

TEST(executions_end_as_their_code_does)
{
    fixture_serve(NULL, reach_ends);
}

static void await_running(struct execution *x)
{
    struct execution_position at = {0};
    struct execution_news news;

    while (!str_eq(fixture_state(x), "running")) {
        (void)execution_news(x, &at, &news);
        CHECK_INT(execution_wait_news(x, &at, 10000), 0);
    }
}

static void stop_them(struct fixture *f)
{
    struct session *s = fixture_create(f);
    struct err e = {0};

    struct execution *x = fixture_begin(s, "hang");
    await_running(x);
    execution_cancel(x);
    fixture_check_end(x, EXECUTION_CANCELLED, 130);

    x = fixture_begin(s, "hang");
    await_running(x);
    CHECK_INT(execution_stop(x, 10000, &e), 0); /* an interrupt: its context lives on */
    fixture_check_end(x, EXECUTION_FAILED, 1);
    fixture_end(f, s);
}

TEST(executions_are_cancelled_and_interrupted)
{
    fixture_serve(NULL, stop_them);
}

static void time_out(struct fixture *f)
{
    struct session *s = fixture_create(f);

    fixture_check_end(fixture_begin(s, "hang"), EXECUTION_TIMEOUT, 124);
    fixture_check_end(fixture_begin(s, "exit 0"), EXECUTION_COMPLETED, 0);
    fixture_end(f, s);
}

TEST(an_execution_ends_at_its_time_limit)
{
    fixture_serve(WORDS("execution_timeout=50ms"), time_out);
}

static void take_turns(struct fixture *f)
{
    struct session *s = fixture_create(f);

    struct execution *first = fixture_begin(s, "hang");
    await_running(first);
    struct execution *second = fixture_begin(s, "print 2");
    struct execution *third = fixture_begin(s, "print 3");
    CHECK_INT(execution_queue_position(first), 0);
    CHECK_INT(execution_queue_position(second), 1);
    CHECK_INT(execution_queue_position(third), 2);
    CHECK_STR(fixture_state(second), "pending");
    execution_cancel(second); /* one that waits never begins */
    CHECK_INT(execution_wait(second, 10000), 0);
    CHECK_STR(fixture_state(second), "cancelled");
    CHECK(execution_result(second) == NULL);
    execution_release(second);
    execution_cancel(first);
    fixture_check_end(first, EXECUTION_CANCELLED, 130);
    fixture_check_end(third, EXECUTION_COMPLETED, 0);
    fixture_end(f, s);
}

TEST(a_context_runs_one_execution_at_a_time_in_their_order)
{
    fixture_serve(NULL, take_turns);
}

static void crowd_the_gate(struct fixture *f)
{
    struct session *a = fixture_create(f);
    struct session *b = fixture_create(f);
    struct session *c = fixture_create(f);
    struct err e = {0};

    struct execution *runs = fixture_begin(a, "hang");
    await_running(runs);
    struct execution *waits = fixture_begin(b, "print 2");
    CHECK_INT(execution_queue_position(waits), 1);
    CHECK(fixture_start(c, 0, "print 3", &e) == NULL);
    CHECK_INT(e.code, ERR_LIMIT);
    execution_cancel(runs);
    fixture_check_end(runs, EXECUTION_CANCELLED, 130);
    fixture_check_end(waits, EXECUTION_COMPLETED, 0);
    fixture_check_end(fixture_begin(c, "print 3"), EXECUTION_COMPLETED, 0);
    fixture_end(f, a);
    fixture_end(f, b);
    fixture_end(f, c);
}

TEST(the_gate_has_places_and_a_line_of_bounded_length)
{
    fixture_serve(WORDS("max_executions=1", "queue_length=1"), crowd_the_gate);
}

static void exceed_the_quota(struct fixture *f)
{
    struct session *s = fixture_create(f);
    AUTO_FREE char *large = calloc(1, 2 * MIB);
    struct execution *x = NULL;
    struct err e = {0};
    bool existed;

    memset(large, 'x', 2 * MIB - 1);
    json_t *request = json_pack("{s:s}", "code", large);
    struct execution_ask ask = {.code = "exit 0", .code_len = 6, .request = request};
    CHECK_INT(execution_start(s, &ask, &x, &existed, &e), -1);
    CHECK_INT(e.code, ERR_QUOTA);
    json_decref(request);
    fixture_check_end(fixture_begin(s, "exit 0"), EXECUTION_COMPLETED, 0);
    fixture_end(f, s);
}

TEST(a_request_beyond_the_quota_is_refused_and_takes_nothing)
{
    fixture_serve(WORDS("session_quota=1M"), exceed_the_quota);
}

static void end_under_them(struct fixture *f)
{
    struct session *s = fixture_create(f);

    struct execution *x = fixture_begin(s, "hang");
    await_running(x);
    fixture_end(f, s);
    CHECK_INT(execution_wait(x, 0), 0);
    CHECK_STR(fixture_state(x), "cancelled");
    execution_release(x);
    CHECK_INT(fake_guests_alive(f->fake), 0);
}

TEST(the_end_of_a_session_ends_its_executions_first)
{
    fixture_serve(NULL, end_under_them);
}

static void run_alone(struct fixture *f)
{
    const struct husk_spec spec = {.code = "print alone", .code_len = 11};
    struct husk_result *r = NULL;
    struct run_fault fault;

    fake_lose_births(f->fake, 1);
    CHECK_INT(service_run(f->svc, 0, &spec, &r, &fault), 0);
    CHECK_STR(r->out, "alone");
    CHECK_STR(r->receipt.backend, "fake");
    CHECK_INT(fake_templates_opened(f->fake), 2);
    husk_result_free(r);
}

TEST(a_run_survives_the_death_of_one_zygote)
{
    fixture_serve(NULL, run_alone);
}
