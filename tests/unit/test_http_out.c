/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of http/out.h and http/peers.h: order, back-pressure, and counting of clients. */
#include "http/out.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "http/peers.h"
#include "tap.h"

static struct http_pool pool;
static struct http_out out;
static int ends[2];

static void open_pair(void)
{
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
}

static void close_pair(void)
{
    http_out_release(&out, &pool);
    http_pool_release(&pool);
    fd_close(&ends[0]);
    fd_close(&ends[1]);
}

TEST(pieces_leave_in_order)
{
    uint64_t sent = 0;
    char got[64] = {0};

    open_pair();
    CHECK_INT(http_out_copy(&out, &pool, "one ", 4), 0);
    CHECK_INT(http_out_borrow(&out, "two ", 4), 0);
    CHECK_INT(http_out_take(&out, strdup("three "), 6), 0);
    CHECK_INT(http_out_copy(&out, &pool, "four", 4), 0);
    CHECK_INT(out.queued, 18);
    CHECK_INT(http_out_flush(&out, &pool, ends[0], &sent), 0);
    CHECK_INT(sent, 18);
    CHECK_INT(out.queued, 0);
    CHECK(out.first == NULL && out.last == NULL);
    CHECK_INT(read(ends[1], got, sizeof(got)), 18);
    CHECK_STR(got, "one two three four");
    close_pair();
}

TEST(empty_pieces_are_nothing)
{
    uint64_t sent = 7;

    open_pair();
    CHECK_INT(http_out_borrow(&out, "", 0), 0);
    CHECK_INT(http_out_take(&out, strdup(""), 0), 0);
    CHECK(out.first == NULL);
    CHECK_INT(http_out_flush(&out, &pool, ends[0], &sent), 0);
    CHECK_INT(sent, 0);
    close_pair();
}

TEST(full_socket_keeps_the_rest)
{
    enum { TOTAL = 3000000 };
    size_t got = 0;
    unsigned char expected = 0;

    open_pair();
    char *data = malloc(TOTAL);
    CHECK(data != NULL);
    for (size_t i = 0; i < TOTAL; i++) {
        data[i] = (char)(i % 251);
    }
    CHECK_INT(http_out_copy(&out, &pool, data, 10), 0);
    CHECK_INT(http_out_copy(&out, &pool, data + 10, TOTAL - 10), 0);
    free(data);
    for (int r = 1; r == 1 || got < TOTAL;) {
        unsigned char piece[10007];
        uint64_t sent = 0;
        r = http_out_flush(&out, &pool, ends[0], &sent);
        CHECK(r >= 0);
        CHECK(sent <= TOTAL);
        ssize_t n = read(ends[1], piece, sizeof(piece));
        for (ssize_t i = 0; i < n; i++) {
            CHECK_INT(piece[i], expected);
            expected = (unsigned char)((expected + 1) % 251);
        }
        got += n > 0 ? (size_t)n : 0;
    }
    CHECK_INT(got, TOTAL);
    CHECK_INT(out.queued, 0);
    close_pair();
}

TEST(gone_reader_is_an_error_and_no_signal)
{
    uint64_t sent = 0;

    open_pair();
    fd_close(&ends[1]);
    CHECK_INT(http_out_copy(&out, &pool, "x", 1), 0);
    CHECK_INT(http_out_flush(&out, &pool, ends[0], &sent), -EPIPE);
    close_pair();
}

TEST(chunks_are_used_again)
{
    uint64_t sent;
    char got[16];

    open_pair();
    CHECK_INT(http_out_copy(&out, &pool, "x", 1), 0);
    struct http_chunk *first = out.first;
    CHECK_INT(http_out_flush(&out, &pool, ends[0], &sent), 0);
    CHECK_INT(pool.n, 1);
    CHECK_INT(http_out_copy(&out, &pool, "y", 1), 0);
    CHECK(out.first == first);
    CHECK_INT(pool.n, 0);
    CHECK_INT(http_out_flush(&out, &pool, ends[0], &sent), 0);
    CHECK_INT(read(ends[1], got, sizeof(got)), 2);
    close_pair();
}

static struct http_peer_key key_of(const char *text)
{
    struct sockaddr_storage address = {.ss_family = strchr(text, ':') ? AF_INET6 : AF_INET};
    void *dst = address.ss_family == AF_INET ? (void *)&((struct sockaddr_in *)&address)->sin_addr
                                             : &((struct sockaddr_in6 *)&address)->sin6_addr;

    CHECK_INT(inet_pton(address.ss_family, text, dst), 1);
    return http_peer_key(&address);
}

static struct http_peer_entry *add(struct http_peers *p, const char *text, size_t count)
{
    struct http_peer_entry *entry = http_peers_add(p, key_of(text));

    CHECK(entry != NULL);
    CHECK_INT(entry->count, count);
    return entry;
}

TEST(addresses_are_counted)
{
    struct http_peers *p = http_peers_new();

    CHECK(p != NULL);
    struct http_peer_entry *first = add(p, "192.0.2.1", 1);
    CHECK(add(p, "192.0.2.1", 2) == first);
    struct http_peer_entry *second = add(p, "192.0.2.2", 1);
    (void)add(p, "::ffff:192.0.2.1", 3);
    (void)add(p, "2001:db8::1", 1);
    (void)add(p, "2001:db8::ffff:ffff:ffff:ffff", 2); /* the same /64 */
    (void)add(p, "2001:db8:0:1::1", 1);
    http_peers_remove(p, first);
    (void)add(p, "192.0.2.1", 3);
    http_peers_remove(p, second);
    (void)add(p, "192.0.2.2", 1);
    http_peers_free(p);
}

/* Whoever is on this machine has sixteen million of them. */
TEST(loopback_is_one_client_whatever_the_address)
{
    struct http_peers *p = http_peers_new();

    (void)add(p, "127.0.0.1", 1);
    (void)add(p, "127.0.0.2", 2);
    (void)add(p, "127.255.255.254", 3);
    (void)add(p, "::1", 4);
    (void)add(p, "::ffff:127.9.9.9", 5);
    (void)add(p, "128.0.0.1", 1);
    (void)add(p, "126.255.255.255", 1);
    (void)add(p, "::2", 1); /* no loopback, and no IPv4 address either */
    (void)add(p, "0.0.0.0", 1);
    http_peers_free(p);
}

TEST(accounts_are_clients_of_their_own)
{
    struct http_peers *p = http_peers_new();

    CHECK_INT(http_peers_add(p, http_peer_key_of_uid(1000))->count, 1);
    CHECK_INT(http_peers_add(p, http_peer_key_of_uid(1000))->count, 2);
    CHECK_INT(http_peers_add(p, http_peer_key_of_uid(1001))->count, 1);
    CHECK_INT(http_peers_add(p, http_peer_key_of_uid(0))->count, 1);
    (void)add(p, "127.0.0.1", 1);
    http_peers_free(p);
}

TEST(many_addresses)
{
    static struct http_peer_entry *entries[20000];
    struct http_peers *p = http_peers_new();

    for (uint64_t i = 0; i < ARRAY_LEN(entries); i++) {
        entries[i] = http_peers_add(p, (struct http_peer_key){HTTP_PEER_V6, i * 7});
        CHECK_INT(entries[i]->count, 1);
    }
    for (uint64_t i = 0; i < ARRAY_LEN(entries); i += 2) {
        http_peers_remove(p, entries[i]);
    }
    for (uint64_t i = 0; i < ARRAY_LEN(entries); i++) {
        CHECK_INT(http_peers_add(p, (struct http_peer_key){HTTP_PEER_V6, i * 7})->count, 1 + i % 2);
    }
    http_peers_free(p);
}
