/* SPDX-License-Identifier: Apache-2.0 */
/* How the bench judges: a missed floor fails it, a missed goal is told. Measures nothing. */
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "tap.h"

static struct row row_of(double ours, double peer, struct bar bar)
{
    return (struct row){.id = "P1",
                        .what = "a run",
                        .unit = "ms",
                        .ours = {.n = 1, .p50 = ours},
                        .peer_name = "a peer",
                        .peer = {.n = peer > 0, .p50 = peer},
                        .bar = bar};
}

/* The exit status of a bench with these rows. *ret is what it prints; the caller frees it. */
static int conclude(const struct row *rows, size_t n, int failed, char **ret)
{
    static struct report report;
    size_t size;

    report = (struct report){.failed = failed};
    for (size_t i = 0; i < n; i++) {
        report_add(&report, &rows[i]);
    }
    FILE *to = open_memstream(ret, &size);
    int status = report_conclude(&report, to);
    (void)fclose(to);
    return status;
}

TEST(a_missed_floor_fails_the_bench)
{
    AUTO_FREE char *said = NULL;
    const struct row rows[] = {row_of(1, 10, AT_MOST(0.5, 0.2)), row_of(6, 10, AT_MOST(0.5, 0.2))};

    CHECK_INT(conclude(rows, 2, 0, &said), 1);
    CHECK(strstr(said, "FLOOR MISSED: P1 a run, a peer\n") != NULL);
    CHECK(strstr(said, "goal not reached") == NULL);
}

TEST(a_missed_goal_is_told_and_fails_nothing)
{
    AUTO_FREE char *said = NULL;
    const struct row row = row_of(4, 10, AT_MOST(0.5, 0.2));

    CHECK_INT(conclude(&row, 1, 0, &said), 0);
    CHECK(strstr(said, "goal not reached: P1 a run, a peer\n") != NULL);
    CHECK(strstr(said, "FLOOR MISSED") == NULL);
}

TEST(a_benchmark_that_fails_fails_the_bench)
{
    AUTO_FREE char *said = NULL;
    const struct row row = row_of(1, 10, AT_MOST(0.5, 0.2));

    CHECK_INT(conclude(&row, 1, 1, &said), 1);
    CHECK(strstr(said, "1 benchmarks could not be carried out") != NULL);
}

TEST(verdicts)
{
    static const struct {
        double ours;
        double peer;
        struct bar bar;
        enum verdict expect;
    } cases[] = {
        {5, 10, {BAR_AT_MOST, false, 0.5, 0.2}, VERDICT_FLOOR},
        {5.1, 10, {BAR_AT_MOST, false, 0.5, 0.2}, VERDICT_MISS},
        {2, 10, {BAR_AT_MOST, false, 0.5, 0.2}, VERDICT_GOAL},
        {80, 10, {BAR_AT_LEAST, false, 7.5, 8}, VERDICT_GOAL},
        {75, 10, {BAR_AT_LEAST, false, 7.5, 8}, VERDICT_FLOOR},
        {74, 10, {BAR_AT_LEAST, false, 7.5, 8}, VERDICT_MISS},
        {619, 10, {BAR_AT_MOST, true, 620, 500}, VERDICT_FLOOR},
        {621, 10, {BAR_AT_MOST, true, 620, 500}, VERDICT_MISS},
        {0, 0, {BAR_AT_MOST, true, 0, 0}, VERDICT_GOAL},
        {1, 0, {BAR_AT_MOST, true, 0, 0}, VERDICT_MISS},
        {5, 0, {BAR_AT_MOST, false, 0.5, 0.2}, VERDICT_ABSENT},
        {5, 10, {BAR_NONE, false, 0, 0}, VERDICT_NONE},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct row row = row_of(cases[i].ours, cases[i].peer, cases[i].bar);
        CHECK_INT(row_verdict(&row), cases[i].expect);
    }
}
