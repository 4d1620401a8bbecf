/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was measured, as a table for people and as JSON for programs. One row compares us with one
 * peer. Below its floor a row is a regression and fails the bench; its goal is only reported.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/err.h"
#include "stats.h"

#define REPORT_ROWS_MAX 64

enum bar_kind { BAR_NONE, BAR_AT_MOST, BAR_AT_LEAST };

struct bar {
    enum bar_kind kind;
    bool absolute; /* applies to our own p50; otherwise to our p50 divided by the peer's */
    double floor;
    double goal;
};

/* At most, at least so many times the peer's; at most so much of our own. */
#define AT_MOST(floor, goal) ((struct bar){BAR_AT_MOST, false, (floor), (goal)})
#define AT_LEAST(floor, goal) ((struct bar){BAR_AT_LEAST, false, (floor), (goal)})
#define OURS_AT_MOST(floor, goal) ((struct bar){BAR_AT_MOST, true, (floor), (goal)})
#define NO_BAR ((struct bar){BAR_NONE, false, 0, 0})

struct row {
    char id[8];
    char what[48];
    char unit[12];
    struct summary ours;
    char peer_name[64]; /* empty: no peer */
    struct summary peer;
    char absent[200]; /* why the peer could not be measured; empty: it was */
    struct bar bar;
};

enum verdict { VERDICT_NONE, VERDICT_ABSENT, VERDICT_MISS, VERDICT_FLOOR, VERDICT_GOAL };

struct report {
    struct row rows[REPORT_ROWS_MAX];
    size_t n;
    int failed; /* benchmarks that could not be carried out */
};

void report_add(struct report *report, const struct row *row);
enum verdict row_verdict(const struct row *row);

/*
 * Prints the table and what was missed. Returns the exit status: 1 when a floor was missed or a
 * benchmark failed, else 0.
 */
int report_conclude(const struct report *report, FILE *to);

void report_table(const struct report *report, FILE *to, bool markdown);
int report_json(const struct report *report, const char *path, struct err *e);
