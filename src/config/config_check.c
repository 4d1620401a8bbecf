/* SPDX-License-Identifier: Apache-2.0 */
/* Checks settings against each other; see config_impl.h. */
#include <netinet/in.h>

#include "base/limits.h"
#include "config/config_impl.h"

#define SHOWN_MAX 640

/* "pool_min (4, from HUSK_POOL_MIN)" */
static const char *show(const struct config *c, enum config_key key, char dst[SHOWN_MAX])
{
    const struct config_row *row = &config_rows[key];
    char number[32] = "";
    char from[512];

    (void)config_number_text(row, *(const uint64_t *)config_field_const(c, key), number,
                             sizeof(number));
    config_origin_text(c, key, from, sizeof(from));
    (void)snprintf(dst, SHOWN_MAX, "%s (%s, from %s)", row->key, number, from);
    return dst;
}

bool config_is_loopback(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)address;

        return ntohl(in->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    }
    const struct in6_addr *in6 = &((const struct sockaddr_in6 *)address)->sin6_addr;
    return address->ss_family == AF_INET6 &&
           (IN6_IS_ADDR_LOOPBACK(in6) ||
            (IN6_IS_ADDR_V4MAPPED(in6) && in6->s6_addr[12] == IN_LOOPBACKNET));
}

/* There is no authentication, so only clients on this machine are let in by default. */
static void check_listen(const struct config *c, struct config_report *report)
{
    struct sockaddr_storage address;
    struct err ignored;
    socklen_t len;
    char from[512];

    config_origin_text(c, CONFIG_listen, from, sizeof(from));
    for (size_t i = 0; i < c->listen.n && !c->insecure_listen; i++) {
        if (config_address(c->listen.items[i], &address, &len, &ignored) < 0 ||
            !config_is_loopback(&address)) {
            config_error(report,
                         "%s: listen: other machines can reach %s, and there is no authentication: "
                         "listen on 127.0.0.1 behind a proxy that asks for a password, or give "
                         "--insecure-listen to let in anyone who can reach the port",
                         from, c->listen.items[i]);
        }
    }
}

void config_check(const struct config *c, struct config_report *report)
{
    static const struct {
        enum config_key smaller;
        enum config_key larger;
    } pairs[] = {
        {CONFIG_pool_min, CONFIG_pool_max},
        {CONFIG_session_pool_min, CONFIG_session_pool_max},
        {CONFIG_session_timeout, CONFIG_max_session_timeout},
        {CONFIG_execution_timeout, CONFIG_max_execution_timeout},
    };
    char a[SHOWN_MAX];
    char b[SHOWN_MAX];

    check_listen(c, report);
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        const uint64_t *small = config_field_const(c, pairs[i].smaller);
        const uint64_t *large = config_field_const(c, pairs[i].larger);

        if (*small > *large) {
            config_error(report, "%s must not be more than %s", show(c, pairs[i].smaller, a),
                         show(c, pairs[i].larger, b));
        }
    }
    if (c->disk_bytes > limits_disk_max(c->memory_bytes)) {
        config_error(report, "%s is kept in memory: at most three quarters of %s are possible",
                     show(c, CONFIG_disk, a), show(c, CONFIG_memory, b));
    }
}
