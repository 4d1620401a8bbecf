/* SPDX-License-Identifier: Apache-2.0 */
/* Races against peers; see match.h. */
#include "match.h"

#include "base/str.h"

#define MATCHES_MAX 8

static struct row begin_row(const char *id, const char *what, const struct contender *ours,
                            const struct bar *bar)
{
    struct row row = {.ours = ours->summary, .bar = *bar};

    (void)str_copy(row.id, sizeof(row.id), id);
    (void)str_copy(row.what, sizeof(row.what), what);
    (void)str_copy(row.unit, sizeof(row.unit), ours->unit);
    return row;
}

void match_report(struct world *w, const char *id, const char *what, const struct contender *ours,
                  const struct contender *peer, const struct bar *bar)
{
    struct row row = begin_row(id, what, ours, bar);

    if (peer != NULL) {
        (void)str_copy(row.peer_name, sizeof(row.peer_name), peer->name);
        row.peer = peer->summary;
    }
    report_add(&w->report, &row);
}

static void report_absent(struct world *w, const char *id, const char *what,
                         const struct contender *ours, const struct match *m)
{
    struct row row = begin_row(id, what, ours, &m->bar);

    (void)str_copy(row.peer_name, sizeof(row.peer_name), m->peer->name);
    (void)str_copy(row.absent, sizeof(row.absent), m->peer->absent);
    report_add(&w->report, &row);
}

int match_run(struct world *w, const char *id, const char *what, struct contender *ours,
              const struct match *matches, size_t n, struct err *e)
{
    struct contender all[MATCHES_MAX + 1] = {*ours};
    size_t present = 1;

    for (size_t i = 0; i < n && present <= MATCHES_MAX; i++) {
        struct peer *p = matches[i].peer;
        if (p->absent[0] == '\0') {
            all[present++] = (struct contender){.name = p->name,
                                                .unit = ours->unit,
                                                .recorded = p->recorded_ms,
                                                .chunk = matches[i].chunk,
                                                .once = peer_once,
                                                .user = p};
        }
    }
    if (race_run(all, present, RACE_ROUNDS, e) < 0) {
        return -1;
    }
    *ours = all[0];
    for (size_t i = 0, at = 1; i < n; i++) {
        if (matches[i].peer->absent[0] == '\0') {
            match_report(w, id, what, ours, &all[at++], &matches[i].bar);
        } else {
            report_absent(w, id, what, ours, &matches[i]);
        }
    }
    return 0;
}
