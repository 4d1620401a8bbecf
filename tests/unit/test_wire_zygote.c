/* SPDX-License-Identifier: Apache-2.0 */
/* The shape of what launcher and zygote say to each other. */
#include "wire/zygote_msg.h"

#include <string.h>

#include "tap.h"
#include "wire/launcher_msg.h"

#define CGROUPS_MOST 6 /* hierarchies that a box joins at most: box/cgroup.h */

TEST(a_spawn_brings_its_four_descriptors_and_a_few_cgroups)
{
    struct zygote_req req = {.limits = limits_default()};

    for (size_t nfds = 0; nfds <= 17; nfds++) {
        CASE("%zu descriptors", nfds);
        CHECK(zygote_req_check(&req, sizeof(req), nfds) ==
              (nfds >= ZYGOTE_SPAWN_FDS && nfds <= ZYGOTE_SPAWN_FDS + CGROUPS_MOST));
    }
    CHECK(!zygote_req_check(&req, sizeof(req) - 1, ZYGOTE_SPAWN_FDS));
    CHECK(!zygote_req_check(&req, sizeof(req) + 1, ZYGOTE_SPAWN_FDS));
}

TEST(a_spawn_with_values_out_of_range_is_refused)
{
    struct zygote_req req = {
        .limits = limits_default(), .mode = LAUNCHER_SESSION, .warmth = LAUNCHER_COOL};

    CHECK(zygote_req_check(&req, sizeof(req), ZYGOTE_SPAWN_FDS));
    req.warmth = LAUNCHER_COOL + 1;
    CHECK(!zygote_req_check(&req, sizeof(req), ZYGOTE_SPAWN_FDS));
    req.warmth = LAUNCHER_FRESH;
    req.mode = LAUNCHER_SESSION + 1;
    CHECK(!zygote_req_check(&req, sizeof(req), ZYGOTE_SPAWN_FDS));
    req.mode = LAUNCHER_ONCE;
    req.limits.memory_bytes = 0;
    CHECK(!zygote_req_check(&req, sizeof(req), ZYGOTE_SPAWN_FDS));
}

TEST(only_spawned_brings_a_descriptor)
{
    for (uint32_t event = ZYGOTE_READY; event <= ZYGOTE_EXITED; event++) {
        struct zygote_rep rep = {.event = event};
        size_t right = event == ZYGOTE_SPAWNED ? 1 : 0;
        CASE("event %u", event);
        for (size_t nfds = 0; nfds < 3; nfds++) {
            CHECK(zygote_rep_check(&rep, sizeof(rep), nfds) == (nfds == right));
        }
        CHECK(!zygote_rep_check(&rep, sizeof(rep) - 1, right));
        CHECK(!zygote_rep_check(&rep, sizeof(rep) + 1, right));
    }
}

TEST(what_no_zygote_of_ours_says_is_refused)
{
    static const uint32_t events[] = {0, ZYGOTE_EXITED + 1, UINT32_MAX};
    struct zygote_rep rep = {.event = ZYGOTE_BROKEN};

    for (size_t i = 0; i < ARRAY_LEN(events); i++) {
        struct zygote_rep unknown = {.event = events[i]};
        CASE("event %u", events[i]);
        CHECK(!zygote_rep_check(&unknown, sizeof(unknown), 0));
    }
    memset(rep.err.msg, 'a', sizeof(rep.err.msg));
    CHECK(!zygote_rep_check(&rep, sizeof(rep), 0));
    rep.err.msg[sizeof(rep.err.msg) - 1] = '\0';
    CHECK(zygote_rep_check(&rep, sizeof(rep), 0));
    rep.err.code = ERR_CODES;
    CHECK(!zygote_rep_check(&rep, sizeof(rep), 0));
}
