/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many connections each client has. A client is an IPv4 address; an IPv6 network of /64, since
 * clients own whole networks; all of loopback, where a process can use any number of addresses; or
 * a uid on the unix socket. The memory grows only with the number of connected clients.
 */
#pragma once

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct http_peers;

enum http_peer_kind { HTTP_PEER_OTHER, HTTP_PEER_V4, HTTP_PEER_V6, HTTP_PEER_LOOP, HTTP_PEER_UID };

struct http_peer_key {
    enum http_peer_kind kind;
    uint64_t which; /* address, network or uid */
};

/* One client. The table owns it; it exists from the client's first connection to its last. */
struct http_peer_entry {
    struct http_peer_entry *next;
    struct http_peer_key key;
    size_t count; /* connections */
    size_t idle;  /* of these: as last counted by admit.c */
};

struct http_peers *http_peers_new(void);
void http_peers_free(struct http_peers *p);

struct http_peer_key http_peer_key(const struct sockaddr_storage *address);
struct http_peer_key http_peer_key_of_uid(uid_t uid);
/* Different keys of one kind have different numbers. */
uint64_t http_peer_number(struct http_peer_key key);
/* Counts one more connection; NULL without memory. */
struct http_peer_entry *http_peers_add(struct http_peers *p, struct http_peer_key key);
/* Counts one less; the last one frees the entry. */
void http_peers_remove(struct http_peers *p, struct http_peer_entry *entry);
