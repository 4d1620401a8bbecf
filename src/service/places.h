/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Admission: which runs go on at the same time, and which waits for how long.
 *
 * A place is for code that uses a processor (docs/adr/0031-places-for-processors.md). A run holds
 * one of three:
 *
 *   fresh   it has used little time of a processor so far. There are about as many as processors:
 *           short runs go through here one after the other, and none shares a processor with sixty
 *           others
 *   busy    it has used a processor for longer. `places` of fresh and busy ones together
 *   asleep  it waits for time or for its client. Only `total` bounds those: they cost memory
 *
 * When there is no place, runs wait in a fair line (fair.h). A client that has less than its part
 * of the places gets in at once, and a client that has less than its part of the line may join it,
 * even if others have used up all of either.
 *
 * Runs are looked at while others wait, and only then. Where a box has no counters, its run is
 * taken for busy.
 */
#pragma once

#include "base/err.h"
#include "base/fiber.h"
#include "service/fair.h"

enum place_state { PLACE_FRESH, PLACE_BUSY, PLACE_ASLEEP };

/* One run that was let in. */
struct place {
    struct place *prev;
    struct place *next;
    struct fair_node *leaf;
    enum place_state state;
    uint64_t since_ns; /* let in */
    uint64_t seen_ns;  /* looked at */
    uint64_t cpu_ns;   /* what it had used then */
    /* What its box has used so far; false: not known. NULL: never known. */
    bool (*used)(const void *user, uint64_t *ret_ns);
    const void *user;
};

struct places {
    size_t places;
    size_t processors;
    size_t fresh_places;
    size_t total;
    size_t line_max;
    size_t fresh;
    size_t busy;
    size_t asleep;
    size_t waiting;
    struct fair_line line;
    struct place *first;
    struct places_waiter *waiters; /* in the order in which they came */
    bool is_watched;               /* a fiber looks at the runs */
};

/* With fewer places all stay in. max_asleep: beyond those that use a processor. */
void places_resize(struct places *p, size_t places, size_t max_asleep, size_t line_max);

/*
 * Waits for a place; `used` and `user` of *ret are the caller's, and it must stay where it is until
 * places_leave(). ERR_LIMIT: the line is full, or no place became free in time; ERR_CONFLICT:
 * *cancel became true, and its fiber was woken.
 */
int places_enter(struct places *p, const struct fair_key *key, struct place *ret,
                 int64_t timeout_ms, const bool *cancel, struct err *e);
void places_leave(struct places *p, struct place *place);

/* Whether one more of that client could enter or wait, beside so many that are on their way. */
bool places_have_room(struct places *p, const struct fair_key *key, size_t coming);
size_t places_taken(const struct places *p);                           /* runs that were let in */
size_t places_position(const struct places *p, const struct fiber *f); /* from 1; 0: not in line */

/* Looks at the runs: which use a processor. Lets in whom that makes room for. For the watcher. */
void places_review(struct places *p, uint64_t now_ns);
