/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of store/store.h: groups, the bounds of the queue, and when a batch is reported. The faulty
 * layer holds the disk where a test needs to know that several batches end up in one group.
 */
#include <poll.h>
#include <stdio.h>

#include "fault_vfs.h"
#include "store_fixture.h"
#include "tap.h"

TEST(waiting_batches_share_one_transaction_and_one_sync)
{
    char dir[FIXTURE_PATH];
    struct fixture_outcomes o = {.n = 0};
    struct store_stats before;
    struct store_stats after;

    fault_vfs_install();
    fixture_dir(dir);
    struct store *st = fixture_open(dir);
    fixture_hold_writer(st, &o);
    store_get_stats(st, &before);
    unsigned syncs = fault_vfs_syncs();
    for (int i = 0; i < 200; i++) {
        char id[20] = "";

        snprintf(id, sizeof(id), "x-%d", i);
        fixture_start_execution(st, id, &o);
    }
    CHECK_INT(o.n, 0);
    CHECK(!fixture_has_execution(st, "x-0"));
    fault_vfs_release();
    fixture_await(st, &o, 201);
    store_get_stats(st, &after);
    CHECK_INT(o.done, 201);
    CHECK_INT(after.transactions - before.transactions, 2); /* the held one and the rest */
    CHECK_INT(fault_vfs_syncs() - syncs, 2);
    CHECK_INT(after.queued, 0);
    CHECK(fixture_has_execution(st, "x-0") && fixture_has_execution(st, "x-199"));
    store_close(st);
    fixture_remove(dir);
}

TEST(nothing_is_reported_or_visible_before_the_sync)
{
    char dir[FIXTURE_PATH];
    struct fixture_outcomes o = {.n = 0};
    struct pollfd p;

    fault_vfs_install();
    fixture_dir(dir);
    struct store *st = fixture_open(dir);
    fault_vfs_hold();
    fixture_start_execution(st, "x", &o);
    fault_vfs_wait_until_held();
    p = (struct pollfd){.fd = store_fd(st), .events = POLLIN};
    CHECK_INT(poll(&p, 1, 0), 0);
    store_dispatch(st);
    CHECK_INT(o.n, 0);
    CHECK(!fixture_has_execution(st, "x"));
    fault_vfs_release();
    fixture_await(st, &o, 1);
    CHECK(fixture_has_execution(st, "x"));
    store_close(st);
    fixture_remove(dir);
}

TEST(a_full_queue_refuses_and_recovers)
{
    char dir[FIXTURE_PATH];
    struct store_options options = {.dir = dir, .queue_max = 4};
    struct fixture_outcomes o = {.n = 0};
    struct store_stats stats;
    struct err e = {.code = ERR_NONE};

    fault_vfs_install();
    fixture_dir(dir);
    struct store *st = store_open(&options, &e);
    CHECK(st != NULL);
    fixture_hold_writer(st, &o);
    for (int i = 0; i < 3; i++) {
        fixture_start_execution(st, "x", &o);
    }
    CHECK_INT(store_commit(store_batch_new(st), fixture_note, &o, &e), -1);
    CHECK_INT(e.code, ERR_LIMIT);
    store_get_stats(st, &stats);
    CHECK_INT(stats.queued, 4);
    fault_vfs_release();
    fixture_await(st, &o, 4);
    fixture_start_execution(st, "y", &o);
    fixture_await(st, &o, 5);
    CHECK_INT(o.done, 5);
    store_close(st);
    fixture_remove(dir);
}

TEST(memory_of_the_queue_is_bounded)
{
    static char text[100001];
    char dir[FIXTURE_PATH];
    struct store_options options = {.dir = dir, .queue_bytes_max = 250000};
    struct fixture_outcomes o = {.n = 0};
    struct err e = {.code = ERR_NONE};
    int refused = 0;

    memset(text, 'x', sizeof(text) - 1);
    fault_vfs_install();
    fixture_dir(dir);
    struct store *st = store_open(&options, &e);
    CHECK(st != NULL);
    fixture_hold_writer(st, &o);
    for (int i = 0; i < 5; i++) {
        struct store_batch *batch = store_batch_new(st);

        store_put_template(batch, &(struct store_template){.name = "t", .definition = text});
        refused += store_commit(batch, fixture_note, &o, &e) != 0;
    }
    CHECK_INT(refused, 3);
    CHECK_INT(e.code, ERR_LIMIT);
    fault_vfs_release();
    fixture_await(st, &o, 3);
    store_close(st);
    fixture_remove(dir);
}

TEST(what_a_batch_cannot_take_is_said_at_its_commit)
{
    char dir[FIXTURE_PATH];
    char id[STORE_ID_MAX + 2] = "";
    struct err e = {.code = ERR_NONE};
    struct store_session s = fixture_session(id);

    fixture_dir(dir);
    memset(id, 'i', sizeof(id) - 1);
    id[sizeof(id) - 1] = '\0';
    struct store *st = fixture_open(dir);

    struct store_batch *batch = store_batch_new(st);
    store_put_template(batch, &(struct store_template){.name = "good"});
    store_put_session(batch, &s);
    CHECK_INT(store_commit(batch, NULL, NULL, &e), -1);
    CHECK_INT(e.code, ERR_INVALID);
    CHECK_STR(e.msg, "id of a session has more than 64 bytes");

    batch = store_batch_new(st);
    store_put_session(batch, &(struct store_session){.status = 1});
    CHECK_INT(store_commit(batch, NULL, NULL, &e), -1);
    CHECK_STR(e.msg, "session without id");

    batch = store_batch_new(st);
    for (int i = 0; i <= STORE_BATCH_MAX; i++) {
        store_delete_session(batch, "x");
    }
    CHECK_INT(store_commit(batch, NULL, NULL, &e), -1);
    CHECK_INT(e.code, ERR_LIMIT);

    struct store_template *t = NULL;
    CHECK_INT(store_get_template(st, "good", &t, &e), -1);
    store_batch_free(store_batch_new(st));
    store_close(st);
    fixture_remove(dir);
}

TEST(closing_writes_what_is_queued_and_runs_the_callbacks)
{
    char dir[FIXTURE_PATH];
    struct fixture_outcomes o = {.n = 0};

    fixture_dir(dir);
    struct store *st = fixture_open(dir);
    for (int i = 0; i < 1000; i++) {
        char id[20] = "";

        snprintf(id, sizeof(id), "x-%d", i);
        fixture_start_execution(st, id, &o);
    }
    store_close(st);
    CHECK_INT(o.done, 1000);
    st = fixture_open(dir);
    for (int i = 0; i < 1000; i++) {
        char id[20] = "";

        snprintf(id, sizeof(id), "x-%d", i);
        CHECK(fixture_has_execution(st, id));
    }
    store_close(st);
    fixture_remove(dir);
}

struct chain {
    struct store *st;
    int left;
    struct fixture_outcomes o;
};

static void commit_next(void *user, const struct store_result *r)
{
    struct chain *c = user;

    fixture_note(&c->o, r);
    if (--c->left > 0) {
        struct store_batch *batch = store_batch_new(c->st);
        struct err e;

        store_put_template(batch, &(struct store_template){.name = "t", .updated_ms = c->left});
        CHECK_INT(store_commit(batch, commit_next, c, &e), 0);
    }
}

TEST(a_callback_may_commit)
{
    char dir[FIXTURE_PATH];
    struct err e;

    fixture_dir(dir);
    struct chain c = {.st = fixture_open(dir), .left = 20};
    CHECK_INT(store_commit(store_batch_new(c.st), commit_next, &c, &e), 0);
    fixture_await(c.st, &c.o, 20);
    CHECK_INT(c.o.done, 20);
    store_close(c.st);
    fixture_remove(dir);
}
