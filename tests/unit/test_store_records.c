/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of store/store.h: what is put comes back whole, and lists hold what was asked for. */
#include <stdio.h>
#include <stdlib.h>

#include "base/attr.h"
#include "store_fixture.h"
#include "tap.h"

#define CHECK_SAME_TEXT(a, b, field) CHECK_STR((a)->field, (b)->field)
#define CHECK_SAME_INT(a, b, field) CHECK_INT((a)->field, (b)->field)

static void check_session(struct store *st, const struct store_session *want)
{
    struct store_session *got = NULL;
    struct err e;

    CHECK_INT(store_get_session(st, want->id, &got, &e), 0);
    CHECK_SAME_TEXT(got, want, id);
    CHECK_SAME_TEXT(got, want, mode);
    CHECK_SAME_TEXT(got, want, template);
    CHECK_SAME_TEXT(got, want, agent_id);
    CHECK_SAME_TEXT(got, want, dialect);
    CHECK_SAME_TEXT(got, want, owner);
    CHECK_SAME_TEXT(got, want, min_isolation);
    CHECK_SAME_TEXT(got, want, spec);
    CHECK_SAME_INT(got, want, created_ms);
    CHECK_SAME_INT(got, want, epoch);
    CHECK_SAME_INT(got, want, status);
    CHECK_SAME_INT(got, want, updated_ms);
    CHECK_SAME_INT(got, want, active_ms);
    CHECK_SAME_INT(got, want, expires_ms);
    CHECK_SAME_INT(got, want, ended_ms);
    CHECK_SAME_TEXT(got, want, end_reason);
    CHECK_SAME_INT(got, want, executions);
    free(got);
}

static void check_execution(struct store *st, const struct store_execution *want)
{
    struct store_execution *got = NULL;
    struct err e;

    CHECK_INT(store_get_execution(st, want->id, &got, &e), 0);
    CHECK_SAME_TEXT(got, want, id);
    CHECK_SAME_TEXT(got, want, session_id);
    CHECK_SAME_INT(got, want, number);
    CHECK_SAME_TEXT(got, want, kind);
    CHECK_SAME_TEXT(got, want, language);
    CHECK_SAME_TEXT(got, want, idempotency);
    CHECK_SAME_TEXT(got, want, request);
    CHECK_SAME_INT(got, want, created_ms);
    CHECK_SAME_INT(got, want, epoch);
    CHECK_SAME_INT(got, want, status);
    CHECK_SAME_TEXT(got, want, result);
    CHECK_SAME_INT(got, want, started_ms);
    CHECK_SAME_INT(got, want, ended_ms);
    CHECK_SAME_INT(got, want, out_bytes);
    CHECK_SAME_INT(got, want, err_bytes);
    free(got);
}

TEST(every_column_comes_back_also_after_reopening)
{
    char dir[FIXTURE_PATH];

    fixture_dir(dir);
    struct store *st = fixture_open(dir);
    struct store_session s = fixture_session("s-1");
    struct store_execution x = fixture_execution("x-1", "s-1", 1);
    struct store_execution alone = fixture_execution("x-2", "", 1);
    alone.result = "{\"status\": \"ok\"}";
    alone.ended_ms = 1700000000099;

    fixture_put_session(st, &s);
    fixture_put_execution(st, &x);
    fixture_put_execution(st, &alone);
    for (int round = 0; round < 2; round++) {
        check_session(st, &s);
        check_execution(st, &x);
        check_execution(st, &alone);
        store_close(st);
        st = fixture_open(dir);
    }
    store_close(st);
    fixture_remove(dir);
}

TEST(absent_text_is_empty_but_an_absent_result_is_absent)
{
    char dir[FIXTURE_PATH];
    struct store_execution *got = NULL;
    struct err e;

    fixture_dir(dir);
    struct store *st = fixture_open(dir);
    fixture_put_execution(st, &(struct store_execution){.id = "x"});
    CHECK_INT(store_get_execution(st, "x", &got, &e), 0);
    CHECK_STR(got->session_id, "");
    CHECK_STR(got->request, "");
    CHECK_STR(got->result, NULL);
    free(got);
    store_close(st);
    fixture_remove(dir);
}

TEST(long_text_comes_back_and_too_long_text_is_refused)
{
    char dir[FIXTURE_PATH];
    struct err e = {.code = ERR_NONE};
    struct store_execution x = fixture_execution("x", "", 1);

    fixture_dir(dir);
    struct store *st = fixture_open(dir);
    char *text = malloc(STORE_TEXT_MAX + 2);
    CHECK(text != NULL);
    memset(text, 'a', STORE_TEXT_MAX + 1);
    text[STORE_TEXT_MAX + 1] = '\0';
    x.result = text;

    struct store_batch *batch = store_batch_new(st);
    store_put_execution(batch, &x);
    CHECK_INT(store_commit_wait(batch, NULL, &e), -1);
    CHECK_INT(e.code, ERR_INVALID);

    text[5UL << 20] = '\0';
    fixture_put_execution(st, &x);
    check_execution(st, &x);
    free(text);
    store_close(st);
    fixture_remove(dir);
}

TEST(a_second_put_updates_what_may_change_and_nothing_else)
{
    char dir[FIXTURE_PATH];
    struct store_session s = fixture_session("s");
    struct store_session later = {.id = "s", .status = 4, .ended_ms = 9, .end_reason = "idle"};
    struct store_execution x = fixture_execution("x", "", 1);
    struct store_execution over = {.id = "x", .status = 2, .result = "{}", .ended_ms = 9};

    fixture_dir(dir);
    struct store *st = fixture_open(dir);
    fixture_put_session(st, &s);
    fixture_put_session(st, &later); /* whether it lives is for moves to say */
    s.epoch = 0;
    s.updated_ms = s.active_ms = s.expires_ms = 0;
    s.executions = 0;
    check_session(st, &s);
    fixture_put_execution(st, &x);
    fixture_put_execution(st, &over);
    x.epoch = x.started_ms = x.out_bytes = x.err_bytes = 0;
    x.status = 2;
    x.result = "{}";
    x.ended_ms = 9;
    check_execution(st, &x);
    store_close(st);
    fixture_remove(dir);
}

TEST(a_put_undoes_no_move)
{
    char dir[FIXTURE_PATH];
    struct store_session before = fixture_session("s");

    fixture_dir(dir);
    struct store *st = fixture_open(dir);
    fixture_put_session(st, &before);
    struct store_session after = before;
    after.status = before.status + 1;
    after.ended_ms = 1700000000099;
    after.end_reason = "idle";
    struct store_batch *batch = store_batch_new(st);
    store_move_session(batch, before.status, &after);
    before.executions = ++after.executions; /* work that began while the move was under way */
    store_put_session(batch, &before);
    fixture_commit(batch);
    check_session(st, &after);
    store_close(st);
    fixture_remove(dir);
}

TEST(templates_are_put_replaced_and_deleted)
{
    char dir[FIXTURE_PATH];
    struct store_template *got = NULL;
    struct err e;

    fixture_dir(dir);
    struct store *st = fixture_open(dir);
    struct store_batch *batch = store_batch_new(st);
    store_put_template(batch, &(struct store_template){"a", 1, 1, "{}"});
    store_put_template(batch, &(struct store_template){"b", 2, 2, "{\"x\": 1}"});
    store_put_template(batch, &(struct store_template){"a", 3, 3, "{\"y\": 2}"});
    fixture_commit(batch);

    CHECK_INT(store_get_template(st, "a", &got, &e), 0);
    CHECK_INT(got->created_ms, 1);
    CHECK_INT(got->updated_ms, 3);
    CHECK_STR(got->definition, "{\"y\": 2}");
    free(got);

    batch = store_batch_new(st);
    store_delete_template(batch, "a");
    store_delete_template(batch, "never there");
    fixture_commit(batch);
    CHECK_INT(store_get_template(st, "a", &got, &e), -1);
    CHECK_INT(e.code, ERR_NOT_FOUND);
    CHECK_STR(e.msg, "no template a");
    CHECK_INT(store_get_template(st, "b", &got, &e), 0);
    CHECK_STR(got->definition, "{\"x\": 1}");
    free(got);
    store_close(st);
    fixture_remove(dir);
}

/* Session i: status i % 3, template t0..t3, agent a0..a1, every fifth ended, epoch i / 10 + 1. */
static void put_many(struct store *st, int n)
{
    struct store_batch *batch = store_batch_new(st);

    for (int i = 0; i < n; i++) {
        char id[20] = "";
        char template[20] = "";
        char agent[20] = "";
        struct store_session s = fixture_session(id);

        snprintf(id, sizeof(id), "s-%02d", i);
        snprintf(template, sizeof(template), "t%d", i % 4);
        snprintf(agent, sizeof(agent), "a%d", i % 2);
        s.status = i % 3;
        s.template = template;
        s.agent_id = agent;
        s.mode = i < 10 ? "ephemeral" : "persistent";
        s.owner = i < 20 ? "o'neil" : "smith";
        s.ended_ms = i % 5 == 0 ? 77 + i : 0;
        s.epoch = i / 10 + 1;
        store_put_session(batch, &s);
    }
    fixture_commit(batch);
}

TEST(filters_and_pages)
{
    static const int one = 1;
    static const int nine = 9;
    static const struct {
        struct store_filter f;
        int total;
        size_t n;
        const char *first; /* newest, or first to end */
    } rows[] = {
        {{.limit = 0}, 30, 30, "s-29"},
        {{.limit = 7}, 30, 7, "s-29"},
        {{.limit = 7, .offset = 28}, 30, 2, "s-01"},
        {{.offset = 99}, 30, 0, NULL},
        {{.status = &one}, 10, 10, "s-28"},
        {{.status = &nine}, 0, 0, NULL},
        {{.template = "t2"}, 7, 7, "s-26"},
        {{.agent_id = "a0", .limit = 3}, 15, 3, "s-28"},
        {{.mode = "ephemeral"}, 10, 10, "s-09"},
        {{.owner = "o'neil"}, 20, 20, "s-19"},
        {{.live = true}, 24, 24, "s-29"},
        {{.live = true, .agent_id = "a1", .limit = 1}, 12, 1, "s-29"},
        {{.live = true, .epoch_before = 2}, 8, 8, "s-09"},
        {{.epoch_before = 1}, 0, 0, NULL},
        {{.ended_before = 78}, 1, 1, "s-00"},
        {{.ended_before = 97, .limit = 2, .offset = 1}, 4, 2, "s-05"},
        {{.ended_before = 77}, 0, 0, NULL},
        {{.status = &one, .template = "t1", .agent_id = "a1", .mode = "persistent"}, 2, 2, "s-25"},
        {{.status = &one, .template = "t1", .live = true, .epoch_before = 3}, 2, 2, "s-13"},
        {{.template = "t1' OR '1'='1"}, 0, 0, NULL},
        {{.limit = SIZE_MAX, .offset = SIZE_MAX}, 30, 0, NULL},
    };
    char dir[FIXTURE_PATH];

    fixture_dir(dir);
    struct store *st = fixture_open(dir);
    put_many(st, 30);
    for (size_t i = 0; i < 2 * ARRAY_LEN(rows); i++) {
        struct store_session_list l;
        struct err e;
        size_t at = i % ARRAY_LEN(rows); /* twice: once preparing, once from the cache */

        CASE("row %zu", at);
        CHECK_INT(store_list_sessions(st, &rows[at].f, &l, &e), 0);
        CHECK_INT(l.total, rows[at].total);
        CHECK_INT(l.n, rows[at].n);
        CHECK_STR(l.n > 0 ? l.rows[0]->id : NULL, rows[at].first);
        for (size_t k = 1; k < l.n; k++) {
            bool is_newer = strcmp(l.rows[k - 1]->id, l.rows[k]->id) > 0;
            CHECK(is_newer == (rows[at].f.ended_before == 0));
        }
        store_session_list_release(&l);
    }
    store_close(st);
    fixture_remove(dir);
}

TEST(a_filter_that_cannot_apply_is_refused)
{
    char dir[FIXTURE_PATH];
    struct store_execution_list l;
    struct err e;

    fixture_dir(dir);
    struct store *st = fixture_open(dir);
    CHECK_INT(store_list_executions(st, &(struct store_filter){.template = "t"}, &l, &e), -1);
    CHECK_INT(e.code, ERR_INVALID);
    CHECK_STR(e.msg, "executions have no template");
    store_close(st);
    fixture_remove(dir);
}

TEST(executions_are_listed_by_session_and_go_with_it)
{
    char dir[FIXTURE_PATH];
    struct store_session s = fixture_session("s");
    struct store_session other = fixture_session("other");
    struct store_execution_list l;
    struct err e;

    fixture_dir(dir);
    struct store *st = fixture_open(dir);
    struct store_batch *batch = store_batch_new(st);
    store_put_session(batch, &s);
    store_put_session(batch, &other);
    for (int i = 1; i <= 9; i++) {
        char id[20] = "";

        snprintf(id, sizeof(id), "x-%d", i);
        struct store_execution x = fixture_execution(id, i % 3 == 0 ? "" : "s", i);
        store_put_execution(batch, &x);
    }
    fixture_commit(batch);
    struct store_filter f = {.session_id = "s", .limit = 2, .offset = 1};
    CHECK_INT(store_list_executions(st, &f, &l, &e), 0);
    CHECK_INT(l.total, 6);
    CHECK_INT(l.n, 2);
    CHECK_STR(l.rows[0]->id, "x-7");
    CHECK_STR(l.rows[1]->id, "x-5");
    store_execution_list_release(&l);

    batch = store_batch_new(st);
    store_delete_session(batch, "s");
    fixture_commit(batch);
    CHECK_INT(store_list_executions(st, &f, &l, &e), 0);
    CHECK_INT(l.total, 0);
    store_execution_list_release(&l);
    CHECK(fixture_has_execution(st, "x-3"));
    store_close(st);
    fixture_remove(dir);
}

static int count_until(void *user, const struct store_session *s, struct err *e)
{
    int *left = user;

    CHECK_INT(s->ended_ms, 0);
    (*left)--;
    return *left == 0 ? err_set(e, ERR_LIMIT, "enough at %s", s->id) : 0;
}

TEST(live_rows_of_older_starts_are_walked_without_a_page_limit)
{
    char dir[FIXTURE_PATH];
    struct store_filter f = {.live = true, .epoch_before = 1000};
    struct err e = {.msg = ""};
    int left = 0;

    fixture_dir(dir);
    struct store *st = fixture_open(dir);
    for (int round = 0; round < 2; round++) {
        struct store_batch *batch = store_batch_new(st);

        for (int i = 0; i < 800; i++) {
            char id[20] = "";
            struct store_session s = fixture_session(id);

            snprintf(id, sizeof(id), "s-%d-%d", round, i);
            s.ended_ms = i % 8 == 0 ? 1 : 0;
            store_put_session(batch, &s);
        }
        fixture_commit(batch);
    }
    CHECK_INT(store_each_session(st, &f, count_until, &left, &e), 0);
    CHECK_INT(left, -1400);
    left = 5;
    CHECK_INT(store_each_session(st, &f, count_until, &left, &e), -1);
    CHECK_STR(e.msg, "enough at s-1-795");
    store_close(st);
    fixture_remove(dir);
}
