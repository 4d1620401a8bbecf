/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of service: made, used, ended; what happens when boxes and zygotes die under them. */
#include <string.h>

#include "base/fiber.h"
#include "base/str.h"
#include "service_fixture.h"
#include "tap.h"

static void create_and_end(struct fixture *f)
{
    struct session *s = fixture_create(f);
    char id[64];
    struct err e = {0};

    CHECK_INT(session_view(s).state, SESSION_RUNNING);
    CHECK(session_box_id(s) != 0);
    CHECK_INT(fake_guests_alive(f->fake), 1);
    CHECK_INT(str_copy(id, sizeof(id), session_id(s)), 0);
    fixture_end(f, s);
    CHECK_INT(fake_guests_alive(f->fake), 0);
    CHECK(session_hold(f->svc, id, &e) == NULL);
    CHECK_INT(e.code, ERR_CONFLICT); /* it has ended, and its record says how */
    CHECK(strstr(e.msg, "terminated") != NULL);
}

TEST(a_session_has_a_box_until_it_ends)
{
    fixture_serve(NULL, create_and_end);
}

static void lose_one_zygote(struct fixture *f)
{
    fake_lose_births(f->fake, 1);
    struct session *s = fixture_create(f);

    CHECK_INT(fake_guests_made(f->fake), 2);
    CHECK_INT(fake_templates_opened(f->fake), 2);
    fixture_check_end(fixture_begin(s, "value 1"), EXECUTION_COMPLETED, 0);
    fixture_end(f, s);
}

TEST(a_zygote_that_dies_before_its_box_is_ready_is_replaced)
{
    fixture_serve(NULL, lose_one_zygote);
}

static void lose_all_zygotes(struct fixture *f)
{
    const struct session_ask ask = {.persistent = true, .dialect = "v1"};
    struct session *s = NULL;
    struct err e = {0};
    enum session_origin origin;

    fake_lose_births(f->fake, 1000);
    CHECK_INT(session_create(f->svc, &ask, &s, &origin, &e), -1);
    CHECK_INT(e.code, ERR_TEMPLATE);
    CHECK_INT(fake_guests_made(f->fake), 3);
}

TEST(zygotes_that_all_die_fail_the_session)
{
    fixture_serve(NULL, lose_all_zygotes);
}

static void break_set_up(struct fixture *f)
{
    const struct session_ask ask = {.persistent = true, .dialect = "v1"};
    struct session *s = NULL;
    struct err e = {0};
    enum session_origin origin;

    fake_break_births(f->fake, 1);
    CHECK_INT(session_create(f->svc, &ask, &s, &origin, &e), -1);
    CHECK_INT(e.code, ERR_ISOLATION);
    CHECK_STR(e.msg, "step disk: no space");
    CHECK_INT(fake_guests_made(f->fake), 1); /* another one would fail as well */
}

TEST(a_box_whose_set_up_fails_is_not_tried_again)
{
    fixture_serve(NULL, break_set_up);
}

static void lose_the_box(struct fixture *f)
{
    struct session *s = fixture_create(f);

    uint32_t first = session_box_id(s);
    struct execution *x = fixture_begin(s, "die");
    CHECK_INT(execution_wait(x, 10000), 0);
    CHECK_STR(fixture_state(x), "crashed");
    execution_release(x);
    fixture_check_end(fixture_begin(s, "value 1"), EXECUTION_COMPLETED, 0);
    CHECK(session_box_id(s) != first);
    fixture_end(f, s);
}

TEST(a_session_whose_box_ended_gets_another)
{
    fixture_serve(NULL, lose_the_box);
}

static void copy_contexts(struct fixture *f)
{
    struct session *s = fixture_create(f);
    struct session_context list[CONTEXTS_MAX];
    struct err e = {0};
    uint32_t branch = 0;
    uint32_t checkpoint = 0;

    CHECK_INT(session_branch(s, 0, &branch, &e), 0);
    CHECK_INT(session_checkpoint(s, branch, &checkpoint, &e), 0);
    CHECK_INT(session_contexts(s, list), 3);
    CHECK_INT(session_restore(s, 0, checkpoint, &e), 0);
    CHECK_INT(session_reset(s, branch, &e), 0);
    CHECK_INT(session_restore(s, 0, branch, &e), -1);
    CHECK_INT(e.code, ERR_NOT_FOUND);
    struct execution *x = fixture_start(s, branch, "value 2", &e);
    fixture_check_end(x, EXECUTION_COMPLETED, 0);
    fixture_end(f, s);
}

TEST(contexts_are_copied_and_restored)
{
    fixture_serve(NULL, copy_contexts);
}

static void fill_the_server(struct fixture *f)
{
    const struct session_ask ask = {.persistent = true, .dialect = "v1"};
    struct session *first = fixture_create(f);
    struct session *second = NULL;
    struct err e = {0};
    enum session_origin origin;

    CHECK_INT(session_create(f->svc, &ask, &second, &origin, &e), -1);
    CHECK_INT(e.code, ERR_LIMIT);
    fixture_end(f, first);
    fixture_end(f, fixture_create(f));
}

TEST(a_server_that_is_full_refuses_sessions)
{
    fixture_serve(WORDS("max_sessions=1"), fill_the_server);
}
