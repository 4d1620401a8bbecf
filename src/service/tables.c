/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of live sessions and executions, by id. Only here, since the macros of uthash are
 * large.
 *
 * Clients may choose ids of sessions, so the hash begins with a secret: they cannot be chosen to
 * collide.
 */
#include <stdint.h>
#include <string.h>

#include "base/rand.h"

static uint32_t hash_bytes(const void *data, size_t n);

#define HASH_FUNCTION(key, len, value) (value) = hash_bytes((key), (len))
#include "service/service_impl.h"

static uint32_t hash_bytes(const void *data, size_t n)
{
    static uint64_t secret;
    const unsigned char *p = data;

    while (secret == 0) {
        rand_bytes(&secret, sizeof(secret));
    }
    uint64_t h = secret;
    for (size_t i = 0; i < n; i++) {
        h = (h ^ p[i]) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
    }
    return (uint32_t)(h ^ h >> 32);
}

/* NOLINTBEGIN(readability-function-cognitive-complexity,readability-function-size) */
struct session *table_session(const struct service *svc, const char *id)
{
    struct session *s;

    HASH_FIND_STR(svc->sessions, id, s);
    return s;
}

void table_add_session(struct service *svc, struct session *s)
{
    HASH_ADD_STR(svc->sessions, id, s);
}

void table_remove_session(struct service *svc, struct session *s)
{
    HASH_DEL(svc->sessions, s);
}

struct execution *table_execution(const struct service *svc, const char *id, size_t len)
{
    struct execution *x;

    HASH_FIND(hh, svc->executions, id, len, x);
    return x;
}

void table_add_execution(struct service *svc, struct execution *x)
{
    HASH_ADD_STR(svc->executions, id, x);
}

void table_remove_execution(struct service *svc, struct execution *x)
{
    HASH_DEL(svc->executions, x);
}
/* NOLINTEND(readability-function-cognitive-complexity,readability-function-size) */

size_t table_sessions(const struct service *svc)
{
    return HASH_COUNT(svc->sessions);
}
