/* SPDX-License-Identifier: Apache-2.0 */
/* See fair.h. */
#include "service/fair.h"

#include <stdlib.h>
#include <uthash.h>

#include "base/attr.h"

/* gcc 12's analyzer loses sight of a node once it is in its parent's table; prune() frees it. */
#if defined(__GNUC__) && !defined(__clang__)
#    pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

struct fair_node {
    UT_hash_handle hh; /* among its brothers, in the order in which they came */
    uint64_t key;
    struct fair_node *parent;
    struct fair_node *children;
    uint64_t pass;
    uint64_t serving; /* the lowest pass among children that wait, or what it was last */
    size_t refs;      /* of the leaf: held by callers; else children */
    struct fair_share share;
    struct fair_waiter *first; /* of the leaf */
};

/* NOLINTBEGIN(readability-function-cognitive-complexity,readability-function-size): uthash */
static struct fair_node *child_of(struct fair_node *parent, uint64_t key)
{
    struct fair_node *n = NULL;

    HASH_FIND(hh, parent->children, &key, sizeof(key), n);
    if (n != NULL) {
        return n;
    }
    n = calloc(1, sizeof(*n));
    if (n == NULL) {
        return NULL;
    }
    n->key = key;
    n->parent = parent;
    n->pass = parent->serving;
    HASH_ADD(hh, parent->children, key, sizeof(n->key), n);
    parent->refs++;
    return n;
}

static void remove_child(struct fair_node *n)
{
    HASH_DEL(n->parent->children, n);
    n->parent->refs--;
    free(n);
}
/* NOLINTEND(readability-function-cognitive-complexity,readability-function-size) */

/* Frees it and those above it that nothing needs. */
static void prune(struct fair_line *line, struct fair_node *n)
{
    while (n->parent != NULL && n->refs == 0) {
        struct fair_node *parent = n->parent;

        remove_child(n);
        n = parent;
    }
    if (n->parent == NULL && n->refs == 0) {
        free(n);
        line->root = NULL;
    }
}

struct fair_node *fair_hold(struct fair_line *line, const struct fair_key *key)
{
    if (line->root == NULL) {
        line->root = calloc(1, sizeof(*line->root));
    }
    struct fair_node *n = line->root;
    for (size_t level = 0; n != NULL && level < FAIR_LEVELS; level++) {
        struct fair_node *child = child_of(n, key->of[level]);
        if (child == NULL) {
            prune(line, n);
            return NULL;
        }
        n = child;
    }
    if (n != NULL) {
        n->refs++;
    }
    return n;
}

void fair_give(struct fair_line *line, struct fair_node *leaf)
{
    leaf->refs--;
    prune(line, leaf);
}

static void add_waiting(struct fair_node *leaf, int by)
{
    for (struct fair_node *n = leaf; n != NULL; n = n->parent) {
        /*
         * One that did not wait has not been passed over: it begins where the others are, or
         * behind them if it has had a turn that still goes on.
         */
        if (n->share.waiting == 0 && n->parent != NULL) {
            n->pass = MAX(n->pass, n->parent->serving + (n->share.busy > 0));
        }
        n->share.waiting += (size_t)by;
    }
}

void fair_join(struct fair_node *leaf, struct fair_waiter *w)
{
    struct fair_waiter **at = &leaf->first;

    while (*at != NULL) {
        at = &(*at)->next;
    }
    *at = w;
    w->next = NULL;
    w->leaf = leaf;
    add_waiting(leaf, 1);
}

void fair_leave(struct fair_waiter *w)
{
    struct fair_waiter **at = &w->leaf->first;

    while (*at != w) {
        at = &(*at)->next;
    }
    *at = w->next;
    add_waiting(w->leaf, -1);
}

struct fair_node_filter {
    bool (*may)(const void *user, const struct fair_share *client);
    const void *user;
};

static struct fair_node *next_leaf(struct fair_node *n, size_t level,
                                   const struct fair_node_filter *f)
{
    struct fair_node *best = NULL;
    struct fair_node *leaf = NULL;

    if (level == FAIR_LEVELS) {
        return n;
    }
    for (struct fair_node *c = n->children; c != NULL; c = c->hh.next) {
        bool is_client = level == FAIR_CLIENT;
        if (c->share.waiting == 0 || (best != NULL && c->pass >= best->pass) ||
            (is_client && f->may != NULL && !f->may(f->user, &c->share))) {
            continue;
        }
        struct fair_node *found = next_leaf(c, level + 1, f); /* NOLINT(misc-no-recursion) */
        if (found != NULL) {
            best = c;
            leaf = found;
        }
    }
    return leaf;
}

/* The pass at which a brother that comes now begins. */
static void note_serving(struct fair_node *parent)
{
    bool any = false;
    uint64_t lowest = UINT64_MAX;

    for (const struct fair_node *c = parent->children; c != NULL; c = c->hh.next) {
        if (c->share.waiting > 0) {
            any = true;
            lowest = MIN(lowest, c->pass);
        }
    }
    parent->serving = any ? MAX(parent->serving, lowest) : parent->serving;
}

struct fair_waiter *fair_next(struct fair_line *line,
                              bool (*may)(const void *user, const struct fair_share *client),
                              const void *user)
{
    const struct fair_node_filter f = {may, user};
    struct fair_node *leaf = line->root != NULL ? next_leaf(line->root, 0, &f) : NULL;

    if (leaf == NULL) {
        return NULL;
    }
    struct fair_waiter *w = leaf->first;
    leaf->first = w->next;
    add_waiting(leaf, -1);
    for (struct fair_node *n = leaf; n->parent != NULL; n = n->parent) {
        n->pass++;
        note_serving(n->parent);
    }
    return w;
}

/* Served before the (ahead + 1)th of n: as many of each brother, and one more of those in front. */
static size_t ahead_of(const struct fair_node *n, size_t ahead)
{
    size_t sum = ahead;
    bool is_behind = false;

    for (const struct fair_node *c = n->parent->children; c != NULL; c = c->hh.next) {
        if (c == n) {
            is_behind = true;
            continue;
        }
        uint64_t lead = n->pass + ahead;
        bool goes_first = c->pass < lead || (c->pass == lead && !is_behind);
        uint64_t turns = goes_first ? lead - c->pass + !is_behind : 0;
        sum += MIN(c->share.waiting, (size_t)turns);
    }
    return sum;
}

size_t fair_position(const struct fair_waiter *w)
{
    size_t ahead = 0;

    for (const struct fair_waiter *i = w->leaf->first; i != w; i = i->next) {
        ahead++;
    }
    for (const struct fair_node *n = w->leaf; n->parent != NULL; n = n->parent) {
        ahead = ahead_of(n, ahead);
    }
    return ahead + 1;
}

void fair_count(struct fair_node *leaf, int busy, int fresh)
{
    for (struct fair_node *n = leaf; n != NULL; n = n->parent) {
        n->share.busy += (size_t)busy;
        n->share.fresh += (size_t)fresh;
    }
}

struct fair_share fair_of_client(const struct fair_node *leaf)
{
    return leaf->parent->share; /* FAIR_CLIENT is the level above FAIR_SESSION */
}

size_t fair_clients(const struct fair_line *line)
{
    size_t n = 0;

    if (line->root == NULL) {
        return 0;
    }
    for (const struct fair_node *t = line->root->children; t != NULL; t = t->hh.next) {
        for (const struct fair_node *c = t->children; c != NULL; c = c->hh.next) {
            n += c->share.waiting > 0 || c->share.busy > 0;
        }
    }
    return n;
}
