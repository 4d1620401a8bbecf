/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A line that is served fairly: over tenants; within a tenant over its clients; within a client
 * over its sessions; within a session first come, first served.
 *
 * How it works: a tree with a node per tenant, client and session that waits or holds a place.
 * Each node has a pass, which grows by one when something below it is served; among brothers the
 * one with the lowest pass is next, and the one that came first if they are equal. A node that
 * comes back begins at the pass that is being served now, so absence earns nothing.
 *
 * Pure bookkeeping: it neither waits nor looks at a clock.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fair_level { FAIR_TENANT, FAIR_CLIENT, FAIR_SESSION, FAIR_LEVELS };

struct fair_key {
    uint64_t of[FAIR_LEVELS];
};

struct fair_node;

/* One that waits; it is the caller's and stays where it is until it is out of the line. */
struct fair_waiter {
    struct fair_waiter *next;
    struct fair_node *leaf;
};

struct fair_line {
    struct fair_node *root; /* NULL: nothing waits, and nothing holds a place */
};

/* What a node has below it. `busy` and `fresh` are the caller's figures. */
struct fair_share {
    size_t waiting;
    size_t busy;
    size_t fresh;
};

/* The node of that key; NULL without memory. The caller gives it back, once per call. */
struct fair_node *fair_hold(struct fair_line *line, const struct fair_key *key);
void fair_give(struct fair_line *line, struct fair_node *leaf);

void fair_join(struct fair_node *leaf, struct fair_waiter *w); /* at the end */
void fair_leave(struct fair_waiter *w);                        /* unserved */
/*
 * Takes the next one off the line; NULL: none. may: asked for each client that has one waiting;
 * NULL: all may.
 */
struct fair_waiter *fair_next(struct fair_line *line,
                              bool (*may)(const void *user, const struct fair_share *client),
                              const void *user);
/* How many would be served before it if no more came, and 1. */
size_t fair_position(const struct fair_waiter *w);

/* Adds to the figures of the node and of those above it. */
void fair_count(struct fair_node *leaf, int busy, int fresh);
struct fair_share fair_of_client(const struct fair_node *leaf);
size_t fair_clients(const struct fair_line *line); /* that wait, or have something busy */
