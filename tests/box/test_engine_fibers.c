/* SPDX-License-Identifier: Apache-2.0 */
/* One engine, many fibers: runs and sessions side by side on one thread. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fiber.h"
#include "base/str.h"
#include "core/husk_impl.h"
#include "core/notebook_impl.h"
#include "engine_fixture.h"
#include "proc_fixture.h"
#include "tap.h"

static struct husk_engine *engine;
static int finished;
static int failed;

static void set_up(void)
{
    struct err e = {0};

    engine = fixture_open();
    CHECK_INT(engine_serve(engine->inner, &e), 0);
}

static void tear_down(void)
{
    husk_close(engine);
    fiber_release();
}

/* Runs code that prints its own number, and checks that it was this number that came back. */
static void run_one(void *user)
{
    int mine = *(int *)user;
    char code[128];
    char want[16];
    struct husk_result *r;
    struct husk_error e;

    CHECK_INT(str_format(code, sizeof(code), "import time; time.sleep(0.3); print(%d)", mine), 0);
    CHECK_INT(str_format(want, sizeof(want), "%d\n", mine), 0);
    struct husk_spec spec = {.code = code, .code_len = strlen(code)};
    if (husk_run(engine, &spec, &r, &e) < 0) {
        failed++;
        return;
    }
    CHECK_STR(r->out, want);
    CHECK_INT(r->status, HUSK_COMPLETED);
    husk_result_free(r);
    finished++;
}

TEST(runs_wait_side_by_side)
{
    uint64_t begun = clock_ms();

    set_up();
    for (int i = 0; i < 20; i++) {
        CHECK_INT(fiber_start(run_one, &i), 0);
    }
    while (finished + failed < 20) {
        struct pollfd p = {.fd = fiber_fd(), .events = POLLIN};
        (void)poll(&p, 1, fiber_timeout());
        fiber_run();
    }
    CHECK_INT(finished, 20);
    CHECK(clock_ms() - begun < 20 * 300); /* one after the other they could not be done by now */
    tear_down();
}

static void hold_session(void *user)
{
    int mine = *(int *)user;
    struct husk_session *s;
    struct husk_spec spec = {0};
    struct husk_result *r;
    struct husk_error e;
    char code[64];
    char want[16];

    CHECK_INT(husk_session_open(engine, &spec, &s, &e), 0);
    CHECK_INT(str_format(code, sizeof(code), "x = %d; import time; time.sleep(0.1)", mine), 0);
    CHECK_INT(str_format(want, sizeof(want), "%d", mine), 0);
    spec = (struct husk_spec){.kind = HUSK_CELL, .code = code, .code_len = strlen(code)};
    CHECK_INT(husk_session_run(s, 0, &spec, &r, &e), 0);
    husk_result_free(r);
    spec = (struct husk_spec){.kind = HUSK_CELL, .code = "x", .code_len = 1};
    CHECK_INT(husk_session_run(s, 0, &spec, &r, &e), 0);
    CHECK_STR(r->value, want);
    husk_result_free(r);
    husk_session_close(s);
    finished++;
}

TEST(sessions_keep_their_state_side_by_side)
{
    set_up();
    for (int i = 0; i < 10; i++) {
        CHECK_INT(fiber_start(hold_session, &i), 0);
    }
    while (finished < 10) {
        struct pollfd p = {.fd = fiber_fd(), .events = POLLIN};
        (void)poll(&p, 1, fiber_timeout());
        fiber_run();
    }
    tear_down();
}

struct copying {
    struct husk_session *session;
    uint32_t from;
    uint32_t to;
};

static void branch_one(void *user)
{
    struct copying *c = user;
    struct husk_error e;

    CHECK_OK(husk_session_branch(c->session, c->from, &c->to, &e), &e);
    finished++;
}

/* While the first is swept after, copies wait; a command's context does not. */
static void copy_during_a_sweep(void *user)
{
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    struct copying copies[] = {{.session = s, .from = 0}, {.session = s, .from = 1}};
    struct guest *box = s->inner->guest;
    struct husk_error e;
    struct err why = {0};
    uint32_t id;

    (void)user;
    CHECK_OK(husk_session_branch(s, 0, &id, &e), &e);
    CHECK_CELL(s, 0, "x = 0", NULL);
    CHECK_CELL(s, 1, "x = 1", NULL);
    box->sweeping++;
    CHECK_INT(fiber_start(branch_one, &copies[0]), 0);
    CHECK_INT(fiber_start(branch_one, &copies[1]), 0);
    fiber_sleep(20);
    CHECK_INT(notebook_command_context(s->inner, &id, &why), 0);
    box->sweeping--;
    guest_wake(box);
    while (finished < 2) {
        fiber_sleep(2);
    }
    CHECK(copies[0].to != copies[1].to && copies[0].to != id && copies[1].to != id);
    CHECK_CELL(s, copies[0].to, "x", "0");
    CHECK_CELL(s, copies[1].to, "x", "1");
    finished++;
}

TEST(contexts_that_begin_at_the_same_time_are_different_ones)
{
    set_up();
    CHECK_INT(fiber_start(copy_during_a_sweep, NULL), 0);
    while (finished < 3) {
        struct pollfd p = {.fd = fiber_fd(), .events = POLLIN};
        (void)poll(&p, 1, fiber_timeout());
        fiber_run();
    }
    tear_down();
}

TEST(a_dead_launcher_ends_every_wait)
{
    set_up();
    for (int i = 0; i < 5; i++) {
        CHECK_INT(fiber_start(run_one, &i), 0);
    }
    uint64_t until = clock_ms() + 10000;
    bool killed = false;
    uint64_t begun = clock_ms();
    while (finished + failed < 5 && clock_ms() < until) {
        struct pollfd p = {.fd = fiber_fd(), .events = POLLIN};
        (void)poll(&p, 1, 10);
        fiber_run();
        if (!killed && clock_ms() - begun > 100) {
            CHECK_INT(kill(proc_launcher(), SIGKILL), 0);
            killed = true;
        }
    }
    CHECK_INT(failed, 5);
    tear_down();
}
