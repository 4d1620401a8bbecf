/* SPDX-License-Identifier: Apache-2.0 */
/* Races and their rows; see match.h. */
#include "match.h"

#include "base/str.h"

struct opponent opponent_of(struct peer *peer, int chunk, struct bar bar)
{
    return (struct opponent){
        .contender = {.name = peer->name,
                      .unit = "ms",
                      .recorded = peer->recorded_ms,
                      .chunk = chunk,
                      .once = peer_once,
                      .user = peer},
        .absent = peer->absent[0] != '\0' ? peer->absent : NULL,
        .bar = bar,
    };
}

static void report_one(struct world *w, const struct match *m, const struct opponent *o)
{
    struct row row = {.ours = m->ours.summary, .peer = o->contender.summary, .bar = o->bar};

    (void)str_copy(row.id, sizeof(row.id), m->id);
    (void)str_copy(row.what, sizeof(row.what), m->what);
    (void)str_copy(row.unit, sizeof(row.unit), m->ours.unit);
    (void)str_copy(row.peer_name, sizeof(row.peer_name), o->contender.name);
    if (o->absent != NULL) {
        (void)str_copy(row.absent, sizeof(row.absent), o->absent);
    }
    report_add(&w->report, &row);
}

void match_report(struct world *w, const struct match *m)
{
    for (size_t i = 0; i < m->n; i++) {
        report_one(w, m, &m->opponents[i]);
    }
}

int match_run(struct world *w, struct match *m, struct err *e)
{
    struct contender all[OPPONENTS_MAX + 1] = {m->ours};
    size_t n = 1;

    for (size_t i = 0; i < m->n; i++) {
        if (m->opponents[i].absent == NULL) {
            all[n++] = m->opponents[i].contender;
        }
    }
    for (size_t i = 0; i < n; i++) {
        all[i].rested = m->rested;
    }
    if (race_run(all, n, RACE_ROUNDS, e) < 0) {
        return -1;
    }
    m->ours = all[0];
    n = 1;
    for (size_t i = 0; i < m->n; i++) {
        if (m->opponents[i].absent == NULL) {
            m->opponents[i].contender = all[n++];
        }
    }
    match_report(w, m);
    return 0;
}
