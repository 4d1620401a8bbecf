/* SPDX-License-Identifier: Apache-2.0 */
/* Admission (service/places.c): what enters, what waits, what a run that sleeps occupies. */
#include "base/attr.h"
#include "base/clock.h"
#include "base/units.h"
#include "service/places.h"
#include "tap.h"

#define LONG_MS 60000
#define RUNS 200

/* A run of a client; its box has used `cpu` so far. */
struct run {
    struct places *places;
    uint64_t client;
    struct place place;
    uint64_t cpu;
    int64_t timeout_ms;
    bool cancel;
    struct fiber *fiber;
    bool is_done; /* places_enter() has returned */
    int result;
    struct err err;
};

static bool used(const void *user, uint64_t *ret)
{
    *ret = *(const uint64_t *)user;
    return true;
}

static struct run runs[RUNS];
static size_t n_runs;
static uint64_t now; /* of the reviews: after the start of all runs */

static void enter(void *user)
{
    struct run *r = user;
    const struct fair_key key = {{0, r->client, (uint64_t)(r - runs)}};

    r->fiber = fiber_self();
    r->place = (struct place){.used = used, .user = &r->cpu};
    r->result = places_enter(r->places, &key, &r->place, r->timeout_ms, &r->cancel, &r->err);
    r->is_done = true;
}

static struct run *begin(struct places *p, uint64_t client)
{
    struct run *r = &runs[n_runs++];

    *r = (struct run){.places = p, .client = client, .cpu = 1, .timeout_ms = LONG_MS};
    CHECK_INT(fiber_start(enter, r), 0);
    now = MAX(now, clock_ns());
    return r;
}

static bool is_in(const struct run *r)
{
    return r->is_done && r->result == 0;
}

static void leave(struct run *r)
{
    CHECK(is_in(r));
    places_leave(r->places, &r->place);
    fiber_run();
}

/* Time passes; runs that are in use so much of a processor. */
static void pass(struct places *p, unsigned ms, unsigned percent)
{
    now += (uint64_t)ms * NS_PER_MS;
    for (size_t i = 0; i < n_runs; i++) {
        runs[i].cpu += (uint64_t)ms * NS_PER_MS / 100 * percent;
    }
    places_review(p, now);
    fiber_run();
}

static void end(struct places *p)
{
    for (size_t i = 0; i < n_runs; i++) {
        if (!runs[i].is_done) {
            runs[i].cancel = true;
            fiber_wake(runs[i].fiber);
        }
    }
    fiber_run_all();
    for (size_t i = 0; i < n_runs; i++) {
        if (is_in(&runs[i]) && runs[i].place.leaf != NULL) {
            places_leave(p, &runs[i].place);
        }
    }
    CHECK_INT(places_taken(p), 0);
    CHECK_INT(p->waiting, 0);
    CHECK(p->line.root == NULL);
    fiber_release();
}

static struct places made(size_t places, size_t fresh, size_t asleep, size_t line)
{
    struct places p = {.places = 0};

    places_resize(&p, places, asleep, line);
    p.fresh_places = fresh; /* whatever this machine has */
    p.processors = 2;
    return p;
}

static size_t count_in(size_t first, size_t n)
{
    size_t in = 0;

    for (size_t i = first; i < first + n; i++) {
        in += is_in(&runs[i]);
    }
    return in;
}

TEST(there_are_as_many_runs_as_places)
{
    struct places p = made(2, 2, 0, 10);

    struct run *a = begin(&p, 1);
    struct run *b = begin(&p, 1);
    struct run *c = begin(&p, 1);
    CHECK(is_in(a) && is_in(b) && !c->is_done);
    CHECK_INT(places_position(&p, c->fiber), 1);
    CHECK_INT(places_position(&p, NULL), 0);
    leave(a);
    CHECK(is_in(c));
    CHECK_INT(places_taken(&p), 2);
    end(&p);
}

TEST(sixty_four_sleepers_leave_their_places_to_others)
{
    struct places p = made(64, 4, 1000, 1000);

    for (int i = 0; i < 64; i++) {
        begin(&p, 1);
    }
    for (int i = 0; i < 64; i++) { /* each has its first moments, then it sleeps */
        pass(&p, 101, 0);
    }
    CHECK_INT(count_in(0, 64), 64);
    CHECK_INT(p.asleep, 64);
    CHECK_INT(p.fresh + p.busy, 0);
    CHECK(is_in(begin(&p, 1))); /* at once, also of the same client */
    CHECK(is_in(begin(&p, 2)));
    end(&p);
}

TEST(code_that_uses_a_processor_keeps_its_place)
{
    struct places p = made(4, 4, 1000, 1000);

    for (int i = 0; i < 5; i++) {
        begin(&p, 1);
    }
    for (int i = 0; i < 50; i++) {
        pass(&p, 101, 50);
    }
    CHECK_INT(count_in(0, 5), 4);
    CHECK_INT(p.busy, 4);
    CHECK(!runs[4].is_done);
    pass(&p, 300, 0);
    pass(&p, 300, 0); /* they sleep */
    CHECK(is_in(&runs[4]));
    pass(&p, 300, 50);
    pass(&p, 300, 50); /* and work again: none is turned out, none comes in */
    CHECK_INT(p.busy + p.fresh, 5);
    CHECK(!begin(&p, 1)->is_done);
    end(&p);
}

TEST(code_that_waits_for_a_processor_does_not_sleep)
{
    struct places p = made(64, 4, 1000, 1000);

    for (int i = 0; i < 65; i++) {
        begin(&p, 1);
    }
    for (int i = 0; i < 100; i++) {
        pass(&p, 100, 3); /* sixty-four of them on two processors */
    }
    CHECK_INT(p.busy, 64);
    CHECK(!runs[64].is_done);
    end(&p);
}

TEST(a_box_without_counters_is_taken_for_busy)
{
    struct places p = made(1, 1, 1000, 10);

    struct run *a = begin(&p, 1);
    a->place.used = NULL;
    struct run *b = begin(&p, 1);
    for (int i = 0; i < 50; i++) {
        pass(&p, 100, 0);
    }
    CHECK(!b->is_done);
    end(&p);
}

TEST(those_who_sleep_are_bounded_too)
{
    struct places p = made(2, 2, 3, 10);

    for (int i = 0; i < 6; i++) {
        begin(&p, 1);
    }
    for (int i = 0; i < 50; i++) {
        pass(&p, 100, 0);
    }
    CHECK_INT(count_in(0, 6), 5); /* two places, and three asleep */
    end(&p);
}

TEST(short_runs_go_through_a_few_places_one_after_the_other)
{
    struct places p = made(64, 4, 1000, 1000);

    for (int i = 0; i < 64; i++) {
        begin(&p, 1);
    }
    CHECK_INT(places_taken(&p), 4); /* not sixty-four that share the processors */
    leave(&runs[0]);
    CHECK_INT(places_taken(&p), 4);
    pass(&p, 5, 0); /* however long that takes */
    pass(&p, 50, 1);
    CHECK_INT(p.busy, 0);
    pass(&p, 11, 100); /* longer ones make room for the next, and go on beside them */
    CHECK_INT(p.busy, 4);
    CHECK_INT(p.fresh, 4);
    end(&p);
}

TEST(a_polite_client_is_let_in_beside_sixty_four_greedy_runs)
{
    struct places p = made(64, 4, 1000, 1000);

    for (int i = 0; i < 128; i++) {
        begin(&p, 1);
    }
    CHECK(is_in(begin(&p, 2))); /* the greedy client has all four, its part is two */
    leave(&runs[128]);
    for (int i = 0; i < 100; i++) {
        pass(&p, 25, 100);
    }
    CHECK_INT(p.fresh + p.busy, 64);
    struct run *polite = begin(&p, 2);
    CHECK(is_in(polite)); /* all sixty-four are the greedy client's, its part is half */
    end(&p);
}

TEST(clients_that_are_more_than_places_take_turns)
{
    struct places p = made(2, 2, 0, 1000);
    struct run *of[4][3];

    for (int k = 0; k < 3; k++) {
        for (uint64_t client = 0; client < 4; client++) {
            of[client][k] = begin(&p, client);
        }
    }
    CHECK(is_in(of[0][0]) && is_in(of[1][0]));
    CHECK_INT(places_taken(&p), 2);
    leave(of[0][0]);
    leave(of[1][0]);
    CHECK(is_in(of[2][0]) && is_in(of[3][0])); /* not the second ones of the others */
    end(&p);
}

TEST(a_full_line_refuses_a_client_that_has_its_part_of_it)
{
    struct places p = made(1, 1, 0, 4);

    for (int i = 0; i < 6; i++) {
        begin(&p, 1);
    }
    CHECK_INT(p.waiting, 4);
    CHECK(runs[5].is_done && runs[5].result == -1);
    CHECK_INT(runs[5].err.code, ERR_LIMIT);
    CHECK(!places_have_room(&p, &(struct fair_key){{0, 1, 0}}, 0));
    CHECK(places_have_room(&p, &(struct fair_key){{0, 2, 0}}, 0));
    CHECK(!begin(&p, 2)->is_done); /* it may wait, though others have filled the line */
    CHECK(!begin(&p, 2)->is_done);
    CHECK(begin(&p, 2)->is_done);
    end(&p);
}

TEST(a_wait_ends_with_its_time_or_when_it_is_cancelled)
{
    struct places p = made(1, 1, 0, 10);

    begin(&p, 1);
    struct run *hasty = &runs[n_runs++];
    *hasty = (struct run){.places = &p, .client = 1, .cpu = 1, .timeout_ms = 5};
    CHECK_INT(fiber_start(enter, hasty), 0);
    struct run *leaver = begin(&p, 1);
    leaver->cancel = true;
    fiber_wake(leaver->fiber);
    fiber_run_all();
    CHECK_INT(hasty->err.code, ERR_LIMIT);
    CHECK_INT(leaver->err.code, ERR_CONFLICT);
    CHECK_INT(p.waiting, 0);
    end(&p);
}

TEST(more_places_call_those_who_wait_and_fewer_turn_none_out)
{
    struct places p = made(1, 1, 0, 10);

    for (int i = 0; i < 3; i++) {
        begin(&p, 1);
    }
    places_resize(&p, 3, 0, 10);
    fiber_run();
    CHECK_INT(count_in(0, 3), 3);
    places_resize(&p, 1, 0, 10);
    CHECK_INT(places_taken(&p), 3);
    CHECK(!begin(&p, 1)->is_done);
    leave(&runs[0]);
    leave(&runs[1]);
    CHECK(!runs[3].is_done);
    leave(&runs[2]);
    CHECK(is_in(&runs[3]));
    end(&p);
}
