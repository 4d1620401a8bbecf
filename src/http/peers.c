/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections per client; see peers.h. A chained hash table, seeded because clients choose the
 * keys.
 */
#include "http/peers.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/rand.h"

#define BUCKETS 1024

struct http_peers {
    uint64_t seed[2];
    struct http_peer_entry *buckets[BUCKETS];
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
            struct http_peer_entry *entry = p->buckets[i];
            p->buckets[i] = entry->next;
            free(entry);
        }
    }
    free(p);
}

static struct http_peer_key key_of_v4(uint32_t address)
{
    bool is_loop = ntohl(address) >> 24 == IN_LOOPBACKNET;

    return (struct http_peer_key){is_loop ? HTTP_PEER_LOOP : HTTP_PEER_V4, is_loop ? 0 : address};
}

struct http_peer_key http_peer_key(const struct sockaddr_storage *address)
{
    struct http_peer_key key = {.kind = HTTP_PEER_OTHER};

    if (address->ss_family == AF_INET) {
        return key_of_v4(((const struct sockaddr_in *)address)->sin_addr.s_addr);
    }
    if (address->ss_family == AF_INET6) {
        const struct in6_addr *six = &((const struct sockaddr_in6 *)address)->sin6_addr;
        if (IN6_IS_ADDR_V4MAPPED(six)) {
            uint32_t four;
            memcpy(&four, six->s6_addr + 12, sizeof(four));
            return key_of_v4(four); /* the same client as without the mapping */
        }
        key.kind = IN6_IS_ADDR_LOOPBACK(six) ? HTTP_PEER_LOOP : HTTP_PEER_V6;
        if (key.kind == HTTP_PEER_V6) {
            memcpy(&key.which, six->s6_addr, sizeof(key.which));
        }
    }
    return key;
}

struct http_peer_key http_peer_key_of_uid(uid_t uid)
{
    return (struct http_peer_key){HTTP_PEER_UID, uid};
}

uint64_t http_peer_number(struct http_peer_key key)
{
    return key.which * 0x9e3779b97f4a7c15U + (uint64_t)key.kind + 1;
}

static struct http_peer_entry **place_of(struct http_peers *p, struct http_peer_key key)
{
    uint64_t hash = ((uint64_t)key.kind ^ p->seed[0]) * 0x9e3779b97f4a7c15U;

    hash = (hash ^ (hash >> 29) ^ key.which ^ p->seed[1]) * 0xbf58476d1ce4e5b9U;
    struct http_peer_entry **at = &p->buckets[(hash >> 32) % BUCKETS];
    while (*at != NULL && ((*at)->key.kind != key.kind || (*at)->key.which != key.which)) {
        at = &(*at)->next;
    }
    return at;
}

struct http_peer_entry *http_peers_add(struct http_peers *p, struct http_peer_key key)
{
    struct http_peer_entry **at = place_of(p, key);
    struct http_peer_entry *entry = *at;

    if (entry == NULL) {
        entry = calloc(1, sizeof(*entry));
        if (entry == NULL) {
            return NULL;
        }
        entry->key = key;
        *at = entry;
    }
    entry->count++;
    return entry;
}

void http_peers_remove(struct http_peers *p, struct http_peer_entry *entry)
{
    if (--entry->count == 0) {
        *place_of(p, entry->key) = entry->next;
        free(entry);
    }
}
