/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A benchmark as most of them are: ourselves and some peers in one race, with a floor and a goal
 * for each.
 */
#pragma once

#include "peers.h"

#define OPPONENTS_MAX 6

struct opponent {
    struct contender contender;
    const char *absent; /* why it does not take part; NULL: it does */
    struct bar bar;
};

struct match {
    const char *id;
    const char *what;
    bool rested; /* as of a contender, for all of them */
    struct contender ours;
    struct opponent opponents[OPPONENTS_MAX];
    size_t n;
};

/* A command as opponent; the peer is borrowed and must have been described before. */
struct opponent opponent_of(struct peer *peer, int chunk, struct bar bar);

/* Runs the race and reports it. */
int match_run(struct world *w, struct match *m, struct err *e);

/*
 * One row for each opponent of a race that was run; those that are absent get a row that says why.
 */
void match_report(struct world *w, const struct match *m);
