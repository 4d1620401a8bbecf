/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this process holds in memory for boxes: frames that are not complete yet, and results of
 * runs that go on.
 *
 * Each box has a share of one budget. A share is charged for bytes that have arrived, never for a
 * length that a box announces. Two bounds: a share's own, BUDGET_PART of the box's memory limit,
 * so that a box cannot have us hold more than it may hold itself; and the budget's, for all boxes
 * together. When that one is used up, the box that holds the most loses: a box that
 * asks for more is refused if it is that one, else the largest share is told by on_lost() and
 * counts as free.
 *
 * Pure bookkeeping: it neither allocates nor waits. Shares are linked, so they must not move.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BUDGET_PART 2 /* half of the box's memory limit */

struct budget_share;

/* Zeroed, it bounds nothing. */
struct budget {
    uint64_t max;   /* of all shares; 0: no bound */
    uint64_t held;  /* by all shares */
    uint64_t dying; /* of that: by shares that have lost and give it back now */
    struct budget_share *first;
};

/* Zeroed, it belongs to no budget and bounds nothing. */
struct budget_share {
    struct budget *of; /* borrowed */
    struct budget_share *prev;
    struct budget_share *next;
    uint64_t max;
    uint64_t held;
    bool is_dying;
    uint32_t losses; /* how often it lost: a run that sees another number than at its start ends */
    void (*on_lost)(void *user);
    void *user;
};

/* Opens a zeroed share of a box with that memory limit. on_lost must not charge anything. */
void budget_open(struct budget *b, struct budget_share *s, uint64_t memory_bytes,
                 void (*on_lost)(void *user), void *user);
/* Gives back all that it holds. Closing a zeroed or closed share does nothing. */
void budget_close(struct budget_share *s);

/* 0, or -EDQUOT: nothing was charged, and what the share holds is to be given up. NULL is fine. */
int budget_charge(struct budget_share *s, uint64_t n);
void budget_credit(struct budget_share *s, uint64_t n); /* NULL is fine */
