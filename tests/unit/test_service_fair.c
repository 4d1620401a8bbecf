/* SPDX-License-Identifier: Apache-2.0 */
/* The fair line (service/fair.c): the order in which tenants, clients and sessions are served. */
#include "base/attr.h"
#include "service/fair.h"
#include "tap.h"

#define MANY 64

struct one {
    struct fair_waiter in_line; /* first */
    char name;
};

static struct fair_line line;

static struct one *join(char name, uint64_t tenant, uint64_t client, uint64_t session)
{
    static struct one all[4 * MANY];
    static size_t n;
    struct one *w = &all[n++ % ARRAY_LEN(all)];

    w->name = name;
    fair_join(fair_hold(&line, &(struct fair_key){{tenant, client, session}}), &w->in_line);
    return w;
}

/* The names of the next n in the order in which they are served. */
static const char *serve(size_t n)
{
    static char names[MANY + 1];

    names[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        struct fair_waiter *w = fair_next(&line, NULL, NULL);
        names[i] = w != NULL ? ((struct one *)w)->name : '-';
        names[i + 1] = '\0';
        if (w != NULL) {
            fair_give(&line, w->leaf);
        }
    }
    return names;
}

TEST(a_session_is_served_first_come_first_served)
{
    join('a', 1, 1, 1);
    join('b', 1, 1, 1);
    join('c', 1, 1, 1);
    CHECK_STR(serve(4), "abc-");
    CHECK(line.root == NULL); /* nothing is left behind */
}

TEST(a_client_waits_for_one_turn_however_many_another_has)
{
    for (int i = 0; i < MANY; i++) {
        join('g', 1, 1, (uint64_t)i);
    }
    CHECK_STR(serve(3), "ggg");
    join('p', 1, 2, 7);
    CHECK_STR(serve(4), "gpgg");
    join('p', 1, 2, 7);
    join('p', 1, 2, 7);
    CHECK_STR(serve(6), "gpgpgg"); /* taking turns */
    serve(MANY);
    CHECK(line.root == NULL);
}

TEST(a_client_that_comes_back_does_not_get_all_turns)
{
    size_t polite = 0;

    for (int i = 0; i < MANY; i++) {
        join('g', 1, 1, (uint64_t)i);
    }
    for (int i = 0; i < 20; i++) { /* it is back before each turn */
        join('p', 1, 2, 7);
        const char *first = serve(2);
        CHECK(first[0] != first[1]);
        polite += first[0] == 'p' || first[1] == 'p';
    }
    CHECK_INT(polite, 20);
    serve(MANY);
}

TEST(sessions_of_a_client_take_turns_within_its_share)
{
    for (int i = 0; i < 4; i++) {
        join('a', 1, 1, 1);
    }
    join('b', 1, 1, 2);
    join('c', 1, 1, 3);
    join('x', 1, 2, 1);
    join('x', 1, 2, 1);
    CHECK_STR(serve(8), "axbxcaaa");
}

TEST(tenants_take_turns_whatever_their_clients_are)
{
    for (int i = 0; i < 6; i++) {
        join('m', 1, (uint64_t)i, 1); /* many clients */
    }
    join('o', 2, 1, 1);
    join('o', 2, 1, 1);
    CHECK_STR(serve(8), "momommmm");
}

TEST(the_position_counts_those_who_are_served_before)
{
    struct one *w[8];

    for (int i = 0; i < 4; i++) {
        w[i] = join('a', 1, 1, 1);
    }
    w[4] = join('b', 1, 1, 2);
    w[5] = join('x', 1, 2, 1);
    w[6] = join('x', 1, 2, 1);
    w[7] = join('y', 1, 3, 1);
    for (size_t served = 0; served < ARRAY_LEN(w); served++) {
        size_t next = 0;
        for (size_t i = 0; i < ARRAY_LEN(w); i++) {
            next = w[i] != NULL && fair_position(&w[i]->in_line) == 1 ? i : next;
        }
        struct fair_waiter *got = fair_next(&line, NULL, NULL);
        CHECK(got == &w[next]->in_line);
        fair_give(&line, got->leaf);
        w[next] = NULL;
    }
    CHECK(line.root == NULL);
}

TEST(the_last_of_a_crowd_knows_how_many_are_before_it)
{
    struct one *last = NULL;

    for (int i = 0; i < 10; i++) {
        last = join('a', 1, 1, 1);
    }
    CHECK_INT(fair_position(&last->in_line), 10);
    struct one *other = join('b', 1, 2, 1);
    CHECK_INT(fair_position(&other->in_line), 2);
    CHECK_INT(fair_position(&last->in_line), 11);
    fair_leave(&other->in_line);
    fair_give(&line, other->in_line.leaf);
    CHECK_INT(fair_position(&last->in_line), 10);
    CHECK_STR(serve(11), "aaaaaaaaaa-");
}

static bool has_none_busy(const void *user, const struct fair_share *client)
{
    return client->busy < *(const size_t *)user;
}

TEST(only_clients_that_may_are_served)
{
    const struct fair_key greedy = {{1, 1, 1}};
    size_t most = 1;

    struct fair_node *held = fair_hold(&line, &greedy);
    fair_count(held, 1, 0);
    join('g', 1, 1, 1);
    CHECK(fair_next(&line, has_none_busy, &most) == NULL);
    struct one *polite = join('p', 1, 2, 1);
    CHECK_INT(fair_clients(&line), 2);
    struct fair_waiter *got = fair_next(&line, has_none_busy, &most);
    CHECK(got == &polite->in_line);
    fair_give(&line, got->leaf);
    fair_count(held, -1, 0);
    fair_give(&line, held);
    CHECK_STR(serve(2), "g-");
    CHECK(line.root == NULL);
}
