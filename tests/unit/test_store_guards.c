/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of store/store.h: what makes a batch fail, alone and as a whole: keys that are taken, rows
 * in another status, rows that are missing or there already.
 */
#include <stdio.h>

#include "base/attr.h"
#include "fault_vfs.h"
#include "store_fixture.h"
#include "tap.h"

TEST(of_batches_that_race_for_a_key_one_wins_and_the_losers_learn_who)
{
    char dir[FIXTURE_PATH];
    struct fixture_outcomes o = {.n = 0};
    struct store_key *found = NULL;
    struct err e;

    fault_vfs_install();
    fixture_dir(dir);
    struct store *st = fixture_open(dir);
    fixture_hold_writer(st, &o);
    for (int i = 0; i < 20; i++) {
        char id[20] = "";
        struct store_key key = {.scope = "me", .key = "k", .id = id, .created_ms = 5};
        struct store_execution x = fixture_execution(id, "", 1);
        struct store_batch *batch = store_batch_new(st);

        snprintf(id, sizeof(id), "x-%d", i);
        memset(key.hash, i + 1, sizeof(key.hash));
        store_put_execution(batch, &x);
        store_claim_key(batch, &key);
        fixture_start(batch, &o);
    }
    fault_vfs_release();
    fixture_await(st, &o, 21);
    CHECK_INT(o.done, 2);
    for (int i = 2; i < 21; i++) {
        CHECK_INT(o.last[i].outcome, STORE_KEY_TAKEN);
        CHECK_INT(o.last[i].err.code, ERR_EXISTS);
        CHECK_STR(o.last[i].holder_id, "x-0");
        CHECK_INT(o.last[i].holder_hash[31], 1);
    }
    CHECK(fixture_has_execution(st, "x-0"));
    CHECK(!fixture_has_execution(st, "x-1")); /* the losing batch left nothing */
    CHECK_INT(store_find_key(st, "me", "k", 6, &found, &e), 0);
    CHECK_STR(found->id, "x-0");
    CHECK_INT(found->hash[0], 1);
    free(found);
    CHECK_INT(store_find_key(st, "you", "k", 6, &found, &e), 0);
    CHECK(found == NULL);
    store_close(st);
    fixture_remove(dir);
}

TEST(a_key_is_free_again_after_its_retention)
{
    char dir[FIXTURE_PATH];
    struct store_options options = {.dir = dir, .key_retention_ms = 100};
    struct store_key key = {.scope = "me", .key = "k", .id = "first", .created_ms = 1000};
    struct store_result r;
    struct store_key *found = NULL;
    struct err e;

    fixture_dir(dir);
    struct store *st = store_open(&options, &e);
    CHECK(st != NULL);
    struct store_batch *batch = store_batch_new(st);
    store_claim_key(batch, &key);
    fixture_commit(batch);

    key.id = "second";
    key.created_ms = 1099;
    batch = store_batch_new(st);
    store_claim_key(batch, &key);
    CHECK_INT(store_commit_wait(batch, &r, &e), -1);
    CHECK_INT(r.outcome, STORE_KEY_TAKEN);

    key.created_ms = 1100;
    batch = store_batch_new(st);
    store_claim_key(batch, &key);
    fixture_commit(batch);
    CHECK_INT(store_find_key(st, "me", "k", 1199, &found, &e), 0);
    CHECK_STR(found->id, "second");
    free(found);
    CHECK_INT(store_find_key(st, "me", "k", 1200, &found, &e), 0);
    CHECK(found == NULL);

    batch = store_batch_new(st);
    store_expire_keys(batch, 1199);
    fixture_commit(batch);
    CHECK_INT(store_find_key(st, "me", "k", 1150, &found, &e), 0);
    CHECK(found != NULL);
    free(found);
    batch = store_batch_new(st);
    store_expire_keys(batch, 1200);
    fixture_commit(batch);
    CHECK_INT(store_find_key(st, "me", "k", 1150, &found, &e), 0);
    CHECK(found == NULL);
    store_close(st);
    fixture_remove(dir);
}

/* Two who ask again at once both see that the first one failed: one of them gets the key. */
TEST(a_key_is_taken_from_its_holder_once)
{
    static const char *const new_holders[] = {"second", "third"};
    char dir[FIXTURE_PATH];
    struct store_options options = {.dir = dir};
    struct store_key key = {.scope = "me", .key = "k", .id = "first", .created_ms = 1000};
    struct store_result r;
    struct err e;

    fixture_dir(dir);
    struct store *st = store_open(&options, &e);
    CHECK(st != NULL);
    struct store_batch *batch = store_batch_new(st);
    store_claim_key(batch, &key);
    fixture_commit(batch);
    for (size_t i = 0; i < 2; i++) {
        batch = store_batch_new(st);
        key.id = "first";
        store_free_key(batch, &key);
        key.id = new_holders[i];
        store_claim_key(batch, &key);
        CHECK_INT(store_commit_wait(batch, &r, &e), i == 0 ? 0 : -1);
    }
    CHECK_INT(r.outcome, STORE_KEY_TAKEN);
    CHECK_STR(r.holder_id, "second");
    store_close(st);
    fixture_remove(dir);
}

TEST(a_move_needs_the_expected_status)
{
    static const struct {
        const char *id;
        int from;
        int to;
        int stored; /* -2: the move works */
    } rows[] = {{"x", 0, 1, -2}, {"x", 0, 2, 1},  {"x", 1, 2, -2},
                {"x", 1, 3, 2},  {"y", 0, 1, -1}, {"x", 2, 2, -2}};
    char dir[FIXTURE_PATH];

    fixture_dir(dir);
    struct store *st = fixture_open(dir);
    struct store_execution x = fixture_execution("x", "", 1);
    fixture_put_execution(st, &x);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct store_batch *batch = store_batch_new(st);
        struct store_execution *got = NULL;
        struct store_result r;
        struct err e;

        CASE("row %zu", i);
        x.id = rows[i].id;
        x.status = rows[i].to;
        store_put_template(batch, &(struct store_template){.name = "side effect", .updated_ms = i});
        store_move_execution(batch, rows[i].from, &x);
        CHECK_INT(store_commit_wait(batch, &r, &e), rows[i].stored == -2 ? 0 : -1);
        if (rows[i].stored != -2) {
            CHECK_INT(r.outcome, STORE_MOVED);
            CHECK_INT(e.code, ERR_CONFLICT);
            CHECK_INT(r.stored_status, rows[i].stored);
            continue;
        }
        CHECK_INT(store_get_execution(st, "x", &got, &e), 0);
        CHECK_INT(got->status, rows[i].to);
        free(got);
    }
    struct store_template *side = NULL;
    struct err e;
    CHECK_INT(store_get_template(st, "side effect", &side, &e), 0);
    CHECK_INT(side->updated_ms, 5); /* a refused batch has none */
    free(side);
    store_close(st);
    fixture_remove(dir);
}

TEST(sessions_move_and_a_move_keeps_what_the_record_does_not_hold)
{
    char dir[FIXTURE_PATH];
    struct store_session s = fixture_session("s");
    struct store_session *got = NULL;
    struct store_result r;
    struct err e;

    fixture_dir(dir);
    struct store *st = fixture_open(dir);
    fixture_put_session(st, &s);
    struct store_batch *batch = store_batch_new(st);
    store_move_session(batch, 1, &(struct store_session){.id = "s", .status = 2, .ended_ms = 9});
    fixture_commit(batch);
    CHECK_INT(store_get_session(st, "s", &got, &e), 0);
    CHECK_INT(got->status, 2);
    CHECK_INT(got->ended_ms, 9);
    CHECK_STR(got->spec, s.spec);
    free(got);
    batch = store_batch_new(st);
    store_move_session(batch, 1, &(struct store_session){.id = "s", .status = 3});
    CHECK_INT(store_commit_wait(batch, &r, &e), -1);
    CHECK_INT(r.outcome, STORE_MOVED);
    CHECK_INT(r.stored_status, 2);
    store_close(st);
    fixture_remove(dir);
}

TEST(a_failing_batch_in_a_group_harms_no_other)
{
    char dir[FIXTURE_PATH];
    struct fixture_outcomes o = {.n = 0};

    fault_vfs_install();
    fixture_dir(dir);
    struct store *st = fixture_open(dir);
    fixture_hold_writer(st, &o);
    for (int i = 0; i < 9; i++) {
        char id[20] = "";
        struct store_batch *batch = store_batch_new(st);
        struct store_execution x = fixture_execution(id, i % 3 == 1 ? "no such session" : "", 1);

        snprintf(id, sizeof(id), "x-%d", i);
        store_put_template(batch, &(struct store_template){.name = id});
        store_put_execution(batch, &x);
        fixture_start(batch, &o);
    }
    fault_vfs_release();
    fixture_await(st, &o, 10);
    CHECK_INT(o.done, 7);
    for (int i = 0; i < 9; i++) {
        char id[20] = "";
        struct store_template *t = NULL;
        struct err e;

        CASE("batch %d", i);
        snprintf(id, sizeof(id), "x-%d", i);
        CHECK_INT(o.last[i + 1].outcome, i % 3 == 1 ? STORE_FAILED : STORE_DONE);
        CHECK_INT(o.last[i + 1].err.code, i % 3 == 1 ? ERR_NOT_FOUND : ERR_NONE);
        CHECK_INT(store_get_template(st, id, &t, &e), i % 3 == 1 ? -1 : 0);
        CHECK_INT(fixture_has_execution(st, id), i % 3 != 1);
        free(t);
    }
    store_close(st);
    fixture_remove(dir);
}

TEST(an_execution_number_is_taken_once_per_session)
{
    char dir[FIXTURE_PATH];
    struct err e;
    struct store_session s = fixture_session("s");

    fixture_dir(dir);
    struct store *st = fixture_open(dir);
    fixture_put_session(st, &s);
    struct store_execution x = fixture_execution("x-1", "s", 1);
    struct store_execution same = fixture_execution("x-2", "s", 1);
    fixture_put_execution(st, &x);
    struct store_batch *batch = store_batch_new(st);
    store_put_execution(batch, &same);
    CHECK_INT(store_commit_wait(batch, NULL, &e), -1);
    CHECK_INT(e.code, ERR_EXISTS);
    store_close(st);
    fixture_remove(dir);
}
