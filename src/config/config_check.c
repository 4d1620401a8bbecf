/* SPDX-License-Identifier: Apache-2.0 */
/* What settings demand of each other; see config_impl.h. */
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
