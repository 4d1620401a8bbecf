/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of core/budget.h: who pays for what is held, and who loses when there is no more. */
#include <errno.h>

#include "base/units.h"
#include "core/budget.h"
#include "tap.h"

static void count(void *user)
{
    (*(int *)user)++;
}

TEST(a_share_is_half_of_the_box_s_memory)
{
    struct budget b = {0};
    struct budget_share s = {0};
    int lost = 0;

    budget_open(&b, &s, 16 * MIB, count, &lost);
    CHECK_INT(budget_charge(&s, 8 * MIB), 0);
    CHECK_INT(budget_charge(&s, 1), -EDQUOT);
    CHECK_INT(budget_charge(&s, UINT64_MAX), -EDQUOT);
    CHECK_INT(s.held, 8 * MIB);
    budget_credit(&s, MIB);
    CHECK_INT(budget_charge(&s, MIB), 0);
    budget_close(&s);
    CHECK_INT(b.held, 0);
    CHECK(b.first == NULL);
    budget_close(&s); /* twice is fine */
    CHECK_INT(lost, 0);
}

TEST(nobody_pays_without_a_share)
{
    struct budget_share none = {0};

    CHECK_INT(budget_charge(NULL, GIB), 0);
    CHECK_INT(budget_charge(&none, GIB), 0);
    budget_credit(NULL, GIB);
    budget_credit(&none, GIB);
    CHECK_INT(none.held, 0);
}

TEST(the_largest_share_loses_and_no_other)
{
    struct budget b = {.max = 10 * MIB};
    struct budget_share s[3] = {0};
    int lost[3] = {0};

    for (size_t i = 0; i < 3; i++) {
        budget_open(&b, &s[i], GIB, count, &lost[i]);
    }
    CHECK_INT(budget_charge(&s[0], 6 * MIB), 0);
    CHECK_INT(budget_charge(&s[1], 3 * MIB), 0);
    CHECK_INT(budget_charge(&s[2], 2 * MIB), 0); /* more than there is: the first one loses */
    CHECK_INT(lost[0], 1);
    CHECK_INT(s[0].losses, 1);
    CHECK_INT(lost[1] + lost[2], 0);

    /* Until it has given everything back it gets no more, and what it holds is not counted. */
    CHECK_INT(budget_charge(&s[0], 1), -EDQUOT);
    CHECK_INT(budget_charge(&s[1], 2 * MIB), 0);
    CHECK_INT(lost[0], 1);
    budget_credit(&s[0], 6 * MIB);
    CHECK_INT(b.held, 7 * MIB);
    CHECK_INT(b.dying, 0);
    CHECK_INT(budget_charge(&s[0], MIB), 0); /* its next run is as welcome as any other */
    for (size_t i = 0; i < 3; i++) {
        budget_close(&s[i]);
    }
    CHECK_INT(b.held, 0);
}

TEST(the_largest_share_is_refused_when_it_is_the_one_that_asks)
{
    struct budget b = {.max = 10 * MIB};
    struct budget_share small = {0};
    struct budget_share large = {0};
    int lost = 0;

    budget_open(&b, &small, GIB, count, &lost);
    budget_open(&b, &large, GIB, count, &lost);
    CHECK_INT(budget_charge(&small, 2 * MIB), 0);
    CHECK_INT(budget_charge(&large, 8 * MIB), 0);
    CHECK_INT(budget_charge(&large, 1), -EDQUOT);
    CHECK_INT(lost, 0); /* the neighbour does not notice */
    CHECK_INT(small.held, 2 * MIB);
    budget_close(&large);
    budget_close(&small);
}

TEST(a_share_that_is_closed_while_it_loses_leaves_nothing)
{
    struct budget b = {.max = 10 * MIB};
    struct budget_share s[2] = {0};
    int lost = 0;

    budget_open(&b, &s[0], GIB, count, &lost);
    budget_open(&b, &s[1], GIB, count, &lost);
    CHECK_INT(budget_charge(&s[0], 9 * MIB), 0);
    CHECK_INT(budget_charge(&s[1], 2 * MIB), 0);
    CHECK_INT(lost, 1);
    budget_close(&s[0]);
    CHECK_INT(b.held, 2 * MIB);
    CHECK_INT(b.dying, 0);
    CHECK_INT(budget_charge(&s[1], 8 * MIB), 0);
    budget_close(&s[1]);
}
