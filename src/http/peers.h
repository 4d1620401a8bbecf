/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many connections each client address has. IPv6 clients own whole networks, so they are
 * counted by /64. Pure but for its memory, which grows with the number of connected addresses only.
 */
#pragma once

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>

struct http_peers;

struct http_peer_key {
    uint64_t a;
    uint64_t b;
};

struct http_peers *http_peers_new(void);
void http_peers_free(struct http_peers *p);

struct http_peer_key http_peer_key(const struct sockaddr_storage *address);
/* Counts one more and returns how many there are then; 0 without memory. */
size_t http_peers_add(struct http_peers *p, struct http_peer_key key);
void http_peers_remove(struct http_peers *p, struct http_peer_key key);
