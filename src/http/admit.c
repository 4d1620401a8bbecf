/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which clients may connect, so that no client takes the places of all others.
 *
 * There are three kinds of clients. Operators: root and our own account on the unix socket. Near
 * ones: other accounts there, and loopback. Far ones: all others.
 *
 *   - A near or far client has at most per_address connections; an operator has no such limit.
 *   - A part of all places is kept for near clients.
 *   - A few places beyond all are for operators alone.
 *   - When no place is left, the client with the most idle connections loses one of them, unless
 *     it has fewer connections than the newcomer: then the newcomer is refused. Operators lose
 *     none, and near clients none to far ones.
 *
 * Must not read from a connection or wait: it runs once per accept().
 */
#include <unistd.h>

#include "http/conn.h"

#define NEAR_PART 16       /* of all places: kept for clients on this machine */
#define OPERATOR_PLACES 64 /* beyond all places */

enum kind { OPERATOR, NEAR, FAR };

static enum kind kind_of(const struct http_conn *c)
{
    if (c->peer.is_unix) {
        return c->peer.uid == 0 || c->peer.uid == geteuid() ? OPERATOR : NEAR;
    }
    return c->entry->key.kind == HTTP_PEER_LOOP ? NEAR : FAR;
}

/* How many connections may be open with this one. Those that are being refused do not count. */
static size_t places_for(const struct http_server *s, enum kind kind)
{
    size_t all = s->config.limits.connections;
    size_t kept = all > 1 ? MAX(all / NEAR_PART, (size_t)1) : 0;

    if (kind == OPERATOR) {
        return all + OPERATOR_PLACES;
    }
    return kind == NEAR ? all : all - kept + MIN(kept, s->near);
}

/* Idle, or with an incomplete head, and its client ranks behind the newcomer's. */
static bool can_lose(const struct http_conn *c, const struct http_conn *newcomer)
{
    enum kind least = MAX(kind_of(newcomer), NEAR);

    return c != newcomer && c->entry != NULL && kind_of(c) >= least && c->phase == CONN_HEAD &&
           c->out.first == NULL;
}

/* The connection that was idle for longest, of the client with the most idle ones. */
static struct http_conn *find_loser(const struct http_server *s, const struct http_conn *newcomer)
{
    size_t least = kind_of(newcomer) == OPERATOR ? 0 : newcomer->entry->count;
    struct http_conn *loser = NULL;

    for (struct http_conn *c = s->conns; c != NULL; c = c->next) {
        if (c->entry != NULL) {
            c->entry->idle = 0;
        }
    }
    for (struct http_conn *c = s->conns; c != NULL; c = c->next) {
        if (can_lose(c, newcomer)) {
            c->entry->idle++;
        }
    }
    for (struct http_conn *c = s->conns; c != NULL; c = c->next) {
        if (!can_lose(c, newcomer) || c->entry->count < least) {
            continue;
        }
        if (loser == NULL || c->entry->idle > loser->entry->idle ||
            (c->entry == loser->entry && c->since <= loser->since)) {
            loser = c;
        }
    }
    return loser;
}

static bool make_place(struct http_server *s, const struct http_conn *newcomer)
{
    struct http_conn *loser = find_loser(s, newcomer);

    if (loser != NULL) {
        s->stats.evicted++;
        http_conn_doom(loser);
    }
    return loser != NULL;
}

void http_admit_forget(struct http_conn *c)
{
    struct http_server *s = c->server;

    if (c->entry != NULL) {
        s->near -= kind_of(c) != FAR;
        http_peers_remove(s->peers, c->entry);
        c->entry = NULL;
    }
}

int http_admit(struct http_conn *c, const struct sockaddr_storage *address)
{
    struct http_server *s = c->server;

    c->entry = http_peers_add(s->peers, c->peer.is_unix ? http_peer_key_of_uid(c->peer.uid)
                                                        : http_peer_key(address));
    if (c->entry == NULL) {
        return 429;
    }
    enum kind kind = kind_of(c);
    s->near += kind != FAR;
    if (kind != OPERATOR && c->entry->count > s->config.limits.per_address) {
        return 429;
    }
    bool has_place = s->stats.open - s->over_limit <= places_for(s, kind);
    return has_place || make_place(s, c) ? 0 : 503;
}
