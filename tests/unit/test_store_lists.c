/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of lists in store/store.h: what SQLite does for a page, cursors, the reader's thread. */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "store/internal.h"
#include "store_fixture.h"
#include "tap.h"

static void put_executions(struct store *st, int first, int n)
{
    struct store_batch *batch = store_batch_new(st);

    for (int i = first; i < first + n; i++) {
        char id[20];

        snprintf(id, sizeof(id), "x-%d", i);
        struct store_execution x = fixture_execution(id, "s", i);
        store_put_execution(batch, &x);
    }
    fixture_commit(batch);
}

static struct store *open_with_session(char *dir)
{
    fixture_dir(dir);
    struct store *st = fixture_open(dir);
    struct store_batch *batch = store_batch_new(st);
    struct store_session s = fixture_session("s");
    store_put_session(batch, &s);
    fixture_commit(batch);
    return st;
}

/* ---- plans ---- */

/* What SQLite does for the statement, one line each. */
static void plan_of(struct store *st, sqlite3_stmt *stmt, char *ret, size_t size)
{
    AUTO_FREE char *sql = NULL;
    sqlite3_stmt *explain = NULL;

    CHECK(asprintf(&sql, "EXPLAIN QUERY PLAN %s", sqlite3_sql(stmt)) > 0);
    CHECK_INT(sqlite3_prepare_v2(st->reader.db, sql, -1, &explain, NULL), SQLITE_OK);
    ret[0] = '\0';
    while (sqlite3_step(explain) == SQLITE_ROW) {
        size_t len = strlen(ret);
        snprintf(ret + len, size - len, "%s\n", (const char *)sqlite3_column_text(explain, 3));
    }
    sqlite3_finalize(explain);
}

/* No page needs more rows than it shows to be in order. */
static void check_plans(struct store *st, bool needs_index)
{
    size_t pages = 0;

    for (size_t i = 0; i < CONN_SLOTS; i++) {
        sqlite3_stmt *stmt = st->reader.statements[i];
        char plan[1024];

        if (stmt == NULL || strstr(sqlite3_sql(stmt), "LIMIT") == NULL) {
            continue;
        }
        plan_of(st, stmt, plan, sizeof(plan));
        if (strstr(plan, "TEMP B-TREE") != NULL ||
            (needs_index && strstr(plan, "USING INDEX") == NULL)) {
            printf("# %s\n# %s", sqlite3_sql(stmt), plan);
        }
        CHECK(strstr(plan, "TEMP B-TREE") == NULL);
        CHECK(!needs_index || strstr(plan, "USING INDEX") != NULL);
        pages++;
    }
    CHECK(pages > 0);
}

TEST(an_index_has_the_executions_of_a_session_in_order)
{
    static const int status = 3;
    const struct store_filter filters[] = {
        {.session_id = "s", .limit = 5},
        {.session_id = "s", .limit = 5, .before = 7},
        {.session_id = "s", .status = &status, .limit = 5},
        {.session_id = "s", .status = &status, .limit = 5, .before = 7},
    };
    char dir[FIXTURE_PATH];
    struct err e;

    struct store *st = open_with_session(dir);
    for (size_t i = 0; i < ARRAY_LEN(filters); i++) {
        struct store_execution_list l;
        CHECK_INT(store_list_executions(st, &filters[i], &l, &e), 0);
        store_execution_list_release(&l);
    }
    check_plans(st, true);
    store_close(st);
    fixture_remove(dir);
}

TEST(sessions_are_listed_without_sorting)
{
    static const int status = 1;
    const struct store_filter filters[] = {
        {.limit = 5},
        {.limit = 5, .before = 7},
        {.status = &status, .limit = 5},
        {.ended_before = 1},
    };
    char dir[FIXTURE_PATH];
    struct err e;

    struct store *st = open_with_session(dir);
    for (size_t i = 0; i < ARRAY_LEN(filters); i++) {
        struct store_session_list l;
        CHECK_INT(store_list_sessions(st, &filters[i], &l, &e), 0);
        store_session_list_release(&l);
    }
    check_plans(st, false);
    store_close(st);
    fixture_remove(dir);
}

/* ---- cursors ---- */

TEST(pages_by_cursor_show_each_row_once_while_rows_are_added)
{
    char dir[FIXTURE_PATH];
    struct store_filter f = {.session_id = "s", .limit = 3};
    int expected = 8;
    struct err e;

    struct store *st = open_with_session(dir);
    put_executions(st, 1, 8);
    do {
        struct store_execution_list l;
        CHECK_INT(store_list_executions(st, &f, &l, &e), 0);
        for (size_t i = 0; i < l.n; i++) {
            CHECK_INT(l.rows[i]->number, expected--);
        }
        f.before = l.next;
        store_execution_list_release(&l);
        put_executions(st, 100 + 10 * expected, 2); /* newer ones do not move the pages */
    } while (f.before != 0);
    CHECK_INT(expected, 0);
    store_close(st);
    fixture_remove(dir);
}

TEST(a_page_that_ends_with_the_last_row_has_no_next)
{
    char dir[FIXTURE_PATH];
    struct store_filter f = {.limit = 2};
    struct store_session_list l;
    struct err e;

    struct store *st = open_with_session(dir);
    struct store_batch *batch = store_batch_new(st);
    struct store_session second = fixture_session("second");
    store_put_session(batch, &second);
    fixture_commit(batch);
    CHECK_INT(store_list_sessions(st, &f, &l, &e), 0);
    CHECK_INT(l.n, 2);
    CHECK_INT(l.next, 0);
    store_session_list_release(&l);

    f.limit = 1;
    CHECK_INT(store_list_sessions(st, &f, &l, &e), 0);
    CHECK_STR(l.rows[0]->id, "second");
    f.before = l.next;
    store_session_list_release(&l);
    CHECK_INT(store_list_sessions(st, &f, &l, &e), 0);
    CHECK_INT(l.n, 1);
    CHECK_STR(l.rows[0]->id, "s");
    CHECK_INT(l.total, 2); /* of all pages */
    CHECK_INT(l.next, 0);
    store_session_list_release(&l);
    store_close(st);
    fixture_remove(dir);
}

/* ---- the reader's thread ---- */

static pthread_t shrunk_by;

static void *keep_the_id(void *row)
{
    struct store_execution *whole = row;
    struct store_execution brief = {.id = whole->id};

    shrunk_by = pthread_self();
    void *kept = store_copy_execution(&brief);
    free(whole);
    return kept;
}

static void count(void *user)
{
    (*(int *)user)++;
}

static void dispatch_until(struct store *st, const int *calls, int n)
{
    while (*calls < n) {
        struct pollfd p = {.fd = store_fd(st), .events = POLLIN};
        CHECK_INT(poll(&p, 1, 10000), 1);
        store_dispatch(st);
    }
}

TEST(a_list_is_read_by_another_thread_and_reported_on_this_one)
{
    char dir[FIXTURE_PATH];
    int calls = 0;
    struct store_read by_id = {
        .kind = STORE_EXECUTIONS,
        .filter = {.session_id = "s", .limit = 2, .offset = 1},
        .with_total = true,
        .shrink = keep_the_id,
        .done = count,
        .user = &calls,
    };
    struct store_read sessions = {.kind = STORE_SESSIONS, .done = count, .user = &calls};
    struct store_read wrong = {
        .kind = STORE_EXECUTIONS, .filter.template = "t", .done = count, .user = &calls};
    struct err e;

    struct store *st = open_with_session(dir);
    put_executions(st, 1, 5);
    CHECK_INT(store_read(st, &by_id, &e), 0);
    CHECK_INT(store_read(st, &sessions, &e), 0);
    CHECK_INT(store_read(st, &wrong, &e), 0);
    CHECK_INT(calls, 0); /* done() is called by store_dispatch() only */
    dispatch_until(st, &calls, 3);

    CHECK_INT(by_id.err.code, ERR_NONE);
    CHECK_INT(by_id.executions.n, 2);
    CHECK_INT(by_id.executions.total, 5);
    CHECK_INT(by_id.executions.next, 3);
    CHECK_STR(by_id.executions.rows[0]->id, "x-4");
    CHECK_STR(by_id.executions.rows[0]->request, "");
    CHECK(!pthread_equal(shrunk_by, pthread_self()));
    store_execution_list_release(&by_id.executions);
    CHECK_INT(sessions.sessions.n, 1);
    store_session_list_release(&sessions.sessions);
    CHECK_INT(wrong.err.code, ERR_INVALID);
    store_close(st);
    fixture_remove(dir);
}

TEST(closing_answers_lists_that_wait)
{
    char dir[FIXTURE_PATH];
    int calls = 0;
    struct store_read reads[4];
    struct err e;

    struct store *st = open_with_session(dir);
    for (size_t i = 0; i < ARRAY_LEN(reads); i++) {
        reads[i] = (struct store_read){.kind = STORE_SESSIONS, .done = count, .user = &calls};
        CHECK_INT(store_read(st, &reads[i], &e), 0);
    }
    store_close(st);
    CHECK_INT(calls, 4);
    for (size_t i = 0; i < ARRAY_LEN(reads); i++) {
        CHECK_INT(reads[i].sessions.n, 1);
        store_session_list_release(&reads[i].sessions);
    }
    fixture_remove(dir);
}
