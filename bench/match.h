/* SPDX-License-Identifier: Apache-2.0 */
/* A race against command-line peers, and its rows in the report. */
#pragma once

#include "peers.h"

struct match {
    struct peer *peer; /* borrowed */
    int chunk;
    struct bar bar;
};

/* One row for each peer; those that are absent get a row that says why. */
int match_run(struct world *w, const char *id, const char *what, struct contender *ours,
              const struct match *matches, size_t n, struct err *e);

/* One row of a finished race. peer may be NULL. */
void match_report(struct world *w, const char *id, const char *what, const struct contender *ours,
                  const struct contender *peer, const struct bar *bar);
