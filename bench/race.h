/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Subject and peers measured alternately: a chunk of one, a chunk of the next, for some rounds, so
 * that whatever else the machine does hits all of them alike.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "stats.h"

#define RACE_ROUNDS 8

struct contender {
    const char *name;
    const char *unit;
    /* p50 on a quiet machine; 0: none. A peer beyond twice this means a busy machine */
    double recorded;
    int chunk; /* measurements in a row */
    /* each starts on a quiet machine: what the one before left to clear away is over */
    bool rested;
    int (*prepare)(void *user, int chunk, struct err *e); /* untimed, before a chunk; may be NULL */
    int (*once)(void *user, double *ret, struct err *e);  /* one measurement */
    void *user;
    struct samples samples;
    struct summary summary;
};

/*
 * Runs the rounds and fills the summaries. When a peer is slower than twice its recorded value,
 * all of it is done once more and the second result stands. Frees the samples.
 */
int race_run(struct contender *contenders, size_t n, int rounds, struct err *e);
