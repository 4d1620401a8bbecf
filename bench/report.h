/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was measured, as a table for people and as JSON for programs. One row compares us with one
 * peer, against one bar.
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
    double value;
    double stretch; /* what we would like; 0: nothing said */
};

/* At most, at least so many times the peer's. */
#define AT_MOST(limit, wish) ((struct bar){BAR_AT_MOST, false, (limit), (wish)})
#define AT_LEAST(limit, wish) ((struct bar){BAR_AT_LEAST, false, (limit), (wish)})
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

enum verdict { VERDICT_NONE, VERDICT_PASS, VERDICT_MISS, VERDICT_ABSENT };

struct report {
    struct row rows[REPORT_ROWS_MAX];
    size_t n;
    int failed; /* benchmarks that could not be carried out */
};

void report_add(struct report *report, const struct row *row);
enum verdict row_verdict(const struct row *row);
bool report_missed(const struct report *report); /* any bar missed, or a benchmark failed */

void report_table(const struct report *report, FILE *to, bool markdown);
int report_json(const struct report *report, const char *path, struct err *e);
