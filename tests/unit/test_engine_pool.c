/* SPDX-License-Identifier: Apache-2.0 */
/* Pools of an engine, with guests that have no walls: taken, refilled, broken, dead. */
#include <stdlib.h>
#include <string.h>

#include "base/fiber.h"
#include "core/core.h"
#include "fake_backend.h"
#include "tap.h"

static struct fake *fake;
static struct engine *engine;

static void set_up(void)
{
    struct err e = {0};

    CHECK_INT(setenv("HUSK_LIB_DIR", SOURCE_DIR, 1), 0);
    fake = fake_new();
    const struct engine_options options = {.template_dir = "/nonexistent",
                                           .backend = fake_backend(fake)};
    CHECK_INT(engine_open(&options, &engine, &e), 0);
    CHECK_INT(engine_serve(engine, &e), 0);
}

static void tear_down(void)
{
    engine_close(engine);
    fiber_run_all();
    fiber_release();
}

static struct husk_pool_stats stats(void)
{
    struct husk_pool_stats s;
    struct err e = {0};

    CHECK_INT(engine_pool_stats(engine, "python", &s, &e), 0);
    return s;
}

/* Lets fibers run until so many boxes are parked. */
static void await_parked(uint32_t n)
{
    while (stats().parked != n || stats().starting != 0) {
        struct pollfd p = {.fd = fiber_fd(), .events = POLLIN};
        (void)poll(&p, 1, fiber_timeout());
        fiber_run();
    }
}

static void fill(uint32_t n)
{
    struct err e = {0};

    CHECK_INT(engine_pool_set(engine, "python", NULL, n, n, &e), 0);
    await_parked(n);
}

struct running {
    struct husk_result *result;
    bool done;
};

static void run(void *user)
{
    const struct husk_spec spec = {.code = "print x", .code_len = 7};
    struct running *r = user;
    struct err e = {0};

    CHECK_INT(engine_run(engine, &spec, NULL, &r->result, &e), 0);
    CHECK_STR(r->result->out, "x");
    r->done = true;
}

static bool run_one(void)
{
    struct running r = {.done = false};

    CHECK_INT(fiber_start(run, &r), 0);
    while (!r.done) {
        struct pollfd p = {.fd = fiber_fd(), .events = POLLIN};
        (void)poll(&p, 1, fiber_timeout());
        fiber_run();
    }
    bool warm = r.result->receipt.warm;
    husk_result_free(r.result);
    return warm;
}

TEST(a_pool_is_filled_taken_from_and_refilled)
{
    set_up();
    CHECK(!run_one());
    fill(3);
    CHECK_INT(fake_guests_alive(fake), 3);
    CHECK(run_one());
    CHECK_INT(stats().hits, 1);
    await_parked(3);
    CHECK_INT(fake_guests_made(fake), 5); /* one before the pool, three in it, one in place */
    tear_down();
}

TEST(guests_that_die_while_parked_are_replaced)
{
    struct engine_box boxes[8];

    set_up();
    fill(2);
    CHECK_INT(engine_boxes(engine, boxes, 8), 2);
    CHECK_STR(boxes[0].state, "parked");
    fake_end_guest(fake, boxes[0].id);
    while (stats().dead == 0) {
        fiber_run();
    }
    await_parked(2);
    CHECK_INT(stats().dead, 1);
    CHECK(run_one());
    tear_down();
}

TEST(guests_that_break_are_replaced)
{
    set_up();
    fake_break_births(fake, 2);
    fill(2);
    CHECK_INT(stats().dead, 2);
    CHECK_INT(fake_guests_made(fake), 4);
    CHECK_INT(fake_guests_alive(fake), 2);
    CHECK(run_one());
    tear_down();
}

TEST(a_pool_outlives_its_zygote)
{
    set_up();
    fill(2);
    fake_end_zygotes(fake);
    while (stats().dead < 2) {
        fiber_run();
    }
    await_parked(2);
    CHECK_INT(fake_templates_opened(fake), 2);
    CHECK(run_one());
    tear_down();
}
