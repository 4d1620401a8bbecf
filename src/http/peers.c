/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections per address; see peers.h. A chained hash table, seeded because clients choose the
 * keys.
 */
#include "http/peers.h"

#include <stdlib.h>
#include <string.h>

#include "base/rand.h"

#define BUCKETS 1024

struct entry {
    struct entry *next;
    struct http_peer_key key;
    size_t count;
};

struct http_peers {
    uint64_t seed[2];
    struct entry *buckets[BUCKETS];
};

struct http_peers *http_peers_new(void)
{
    struct http_peers *p = calloc(1, sizeof(*p));

    if (p != NULL) {
        rand_bytes(p->seed, sizeof(p->seed));
    }
    return p;
}

void http_peers_free(struct http_peers *p)
{
    for (size_t i = 0; p != NULL && i < BUCKETS; i++) {
        while (p->buckets[i] != NULL) {
            struct entry *entry = p->buckets[i];
            p->buckets[i] = entry->next;
            free(entry);
        }
    }
    free(p);
}

struct http_peer_key http_peer_key(const struct sockaddr_storage *address)
{
    struct http_peer_key key = {0, 0};

    if (address->ss_family == AF_INET) {
        key.a = ((const struct sockaddr_in *)address)->sin_addr.s_addr;
    } else if (address->ss_family == AF_INET6) {
        const struct in6_addr *six = &((const struct sockaddr_in6 *)address)->sin6_addr;
        if (IN6_IS_ADDR_V4MAPPED(six)) {
            uint32_t four;
            memcpy(&four, six->s6_addr + 12, sizeof(four));
            key.a = four; /* the same client as without the mapping */
        } else {
            memcpy(&key.b, six->s6_addr, sizeof(key.b));
        }
    }
    return key;
}

static struct entry **place_of(struct http_peers *p, struct http_peer_key key)
{
    uint64_t hash = (key.a ^ p->seed[0]) * 0x9e3779b97f4a7c15U;

    hash = (hash ^ (hash >> 29) ^ key.b ^ p->seed[1]) * 0xbf58476d1ce4e5b9U;
    struct entry **at = &p->buckets[(hash >> 32) % BUCKETS];
    while (*at != NULL && ((*at)->key.a != key.a || (*at)->key.b != key.b)) {
        at = &(*at)->next;
    }
    return at;
}

size_t http_peers_add(struct http_peers *p, struct http_peer_key key)
{
    struct entry **at = place_of(p, key);
    struct entry *entry = *at;

    if (entry == NULL) {
        entry = calloc(1, sizeof(*entry));
        if (entry == NULL) {
            return 0;
        }
        entry->key = key;
        *at = entry;
    }
    return ++entry->count;
}

void http_peers_remove(struct http_peers *p, struct http_peer_key key)
{
    struct entry **at = place_of(p, key);

    if (*at != NULL && --(*at)->count == 0) {
        struct entry *gone = *at;
        *at = gone->next;
        free(gone);
    }
}
