/* SPDX-License-Identifier: Apache-2.0 */
/* The spec in the record of a session (service/session_spec.c), as a successor reads it. */
#include <stdlib.h>

#include "service/service_impl.h"
#include "tap.h"

TEST(a_successor_reads_what_was_asked_for)
{
    static const char *const env[] = {"A=1", "B=two words", NULL};
    json_t *spec = json_pack("{s:i}", "timeout", 60);
    struct session_ask ask = {
        .limits = {.memory_bytes = 1 << 30, .disk_bytes = 1 << 20, .cpu_milli = 1500, .pids = 7},
        .lifetime_ms = 5000,
        .env = env,
        .spec = spec,
        .idempotency = {.key = "k"},
    };
    char *text = session_spec_text(&ask);
    struct session s = {.record.spec = text};

    CHECK(json_object_size(spec) == 1); /* the caller's is left alone */
    session_spec_read(&s);
    CHECK_INT(s.limits.memory_bytes, 1 << 30);
    CHECK_INT(s.limits.disk_bytes, 1 << 20);
    CHECK_INT(s.limits.cpu_milli, 1500);
    CHECK_INT(s.limits.pids, 7);
    CHECK_INT(s.lifetime_ms, 5000);
    CHECK(s.keyed);
    CHECK_STR(s.env[0], "A=1");
    CHECK_STR(s.env[1], "B=two words");
    CHECK(s.env[2] == NULL);

    json_t *kept = json_loads(text, 0, NULL);
    CHECK_INT(json_integer_value(json_object_get(kept, "timeout")), 60);
    json_decref(kept);
    json_decref(spec);
    text_list_free(s.env);
    free(text);
}

TEST(a_record_without_these_members_means_the_defaults)
{
    struct session s = {.record.spec = "{\"timeout\": 60}"};

    session_spec_read(&s);
    CHECK(!s.keyed && s.env == NULL);
    CHECK_INT(s.lifetime_ms, 0);
    CHECK_INT(s.limits.memory_bytes, 0);
}
