/* SPDX-License-Identifier: Apache-2.0 */
/* What is kept of sessions (service/quota.c): bounds, output that is cut, what goes back. */
#include <string.h>

#include "service/service_impl.h"
#include "tap.h"

#define SESSION_QUOTA 100000
#define DATA_QUOTA 150000

struct quota_world {
    struct config config;
    struct service svc;
    struct session first;
    struct session second;
};

static void world_init(struct quota_world *w)
{
    *w = (struct quota_world){
        .config = {.session_quota_bytes = SESSION_QUOTA, .data_quota_bytes = DATA_QUOTA}};
    w->svc.config = &w->config;
    w->first = (struct session){.svc = &w->svc, .id = "first"};
    w->second = (struct session){.svc = &w->svc, .id = "second"};
}

static struct execution execution_of(struct session *s, enum row_phase row)
{
    return (struct execution){.svc = s->svc, .session = s, .row = row, .record.request = "{}"};
}

TEST(a_session_takes_what_it_may_and_not_a_byte_more)
{
    struct quota_world w;
    struct err e = {0};

    world_init(&w);
    CHECK_INT(quota_take(&w.first, SESSION_QUOTA, &e), 0);
    CHECK_INT(quota_room(&w.first), 0);
    CHECK_INT(quota_take(&w.first, 1, &e), -1);
    CHECK_INT(e.code, ERR_QUOTA);
    CHECK(strstr(e.msg, "session_quota") != NULL);
    quota_give(&w.first, 10);
    CHECK_INT(quota_room(&w.first), 10);
}

TEST(all_sessions_together_have_a_bound_too)
{
    struct quota_world w;
    struct err e = {0};

    world_init(&w);
    CHECK_INT(quota_take(&w.first, SESSION_QUOTA, &e), 0);
    CHECK_INT(quota_room(&w.second), DATA_QUOTA - SESSION_QUOTA);
    CHECK_INT(quota_take(&w.second, DATA_QUOTA - SESSION_QUOTA + 1, &e), -1);
    CHECK(strstr(e.msg, "data_quota") != NULL);
    quota_forget(&w.svc, SESSION_QUOTA);
    CHECK_INT(quota_take(&w.second, SESSION_QUOTA, &e), 0);
}

TEST(what_must_be_kept_is_counted_and_the_next_request_fails)
{
    struct quota_world w;
    struct err e = {0};

    world_init(&w);
    quota_force(&w.first, SESSION_QUOTA * 2);
    CHECK_INT(quota_room(&w.first), 0);
    CHECK_INT(quota_check(&w.first, 1, &e), -1);
    quota_give(&w.first, SESSION_QUOTA * 5); /* never below nothing */
    CHECK_INT(w.svc.kept_bytes, 0);
}

TEST(an_execution_ends_with_what_its_record_has)
{
    struct quota_world w;
    struct err e = {0};

    world_init(&w);
    struct execution x = execution_of(&w.first, ROW_STORED);
    CHECK_INT(quota_begin_execution(&x, &e), 0);
    uint64_t row = x.row_bytes;
    CHECK(x.charged > row);
    CHECK(quota_end_execution(&x, 5000, false));
    CHECK_INT(w.first.kept_bytes, row + 5000);
    CHECK_INT(w.first.record.kept_bytes, row + 5000);
    quota_drop_execution(&x); /* it has ended: nothing goes back */
    CHECK_INT(w.first.kept_bytes, row + 5000);
}

TEST(a_result_without_room_is_refused_unless_it_is_the_least)
{
    struct quota_world w;
    struct err e = {0};

    world_init(&w);
    struct execution x = execution_of(&w.first, ROW_STORED);
    CHECK_INT(quota_begin_execution(&x, &e), 0);
    CHECK(!quota_end_execution(&x, SESSION_QUOTA, false));
    CHECK(quota_end_execution(&x, SESSION_QUOTA, true));
}

TEST(an_execution_that_never_ended_gives_all_of_it_back)
{
    struct quota_world w;
    struct err e = {0};

    world_init(&w);
    struct execution x = execution_of(&w.first, ROW_AHEAD);
    CHECK_INT(quota_begin_execution(&x, &e), 0);
    quota_drop_execution(&x);
    CHECK_INT(w.first.kept_bytes, 0);
    CHECK_INT(w.first.record.kept_bytes, 0);
}

TEST(output_beyond_the_quota_is_cut)
{
    struct quota_world w;
    struct err e = {0};

    world_init(&w);
    struct execution x = execution_of(&w.first, ROW_STORED);
    struct buf text = BUF_INIT((size_t)1 << 20);
    CHECK_INT(quota_begin_execution(&x, &e), 0);
    quota_prepare_output(&x, &text, 1000);
    CHECK(!x.is_cut && text.max == (size_t)1 << 20);
    quota_prepare_output(&x, &text, SESSION_QUOTA);
    CHECK(x.is_cut);
    CHECK(text.max > 1000 && text.max < SESSION_QUOTA);
    CHECK_INT(text.max, x.output_room);
    quota_use_output(&x, 100);
    CHECK_INT(x.output_room, text.max - 100);
}

TEST(an_unrecorded_execution_costs_nothing)
{
    struct quota_world w;
    struct err e = {0};

    world_init(&w);
    struct execution x = execution_of(&w.first, ROW_NEVER);
    struct buf text = BUF_INIT((size_t)1 << 20);
    CHECK_INT(quota_begin_execution(&x, &e), 0);
    quota_prepare_output(&x, &text, SESSION_QUOTA * 2);
    CHECK(quota_end_execution(&x, SESSION_QUOTA * 2, false));
    CHECK(!x.is_cut);
    CHECK_INT(w.first.kept_bytes, 0);
}
