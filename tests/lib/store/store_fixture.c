/* SPDX-License-Identifier: Apache-2.0 */
/* Directories and records for the tests of the store; see store_fixture.h. */
#include "store_fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/attr.h"
#include "fault_vfs.h"
#include "tap.h"

void fixture_dir(char path[FIXTURE_PATH])
{
    const char *base = getenv("TMPDIR");

    snprintf(path, FIXTURE_PATH, "%s/husk-store-XXXXXX", base != NULL ? base : "/tmp");
    CHECK(mkdtemp(path) != NULL);
}

/* The store makes no folders, and neither do its tests in there. */
void fixture_remove(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;

    CHECK(dir != NULL);
    while ((entry = readdir(dir)) != NULL) {
        (void)unlinkat(dirfd(dir), entry->d_name, 0);
    }
    closedir(dir);
    CHECK_INT(rmdir(path), 0);
}

struct store *fixture_open(const char *dir)
{
    struct store_options options = {.dir = dir};
    struct err e = {.msg = ""};
    struct store *st = store_open(&options, &e);

    CHECK_STR(e.msg, "");
    CHECK(st != NULL);
    return st;
}

struct err fixture_open_fails(const char *dir)
{
    struct store_options options = {.dir = dir};
    struct err e = {.msg = ""};

    CHECK(store_open(&options, &e) == NULL);
    fprintf(stderr, "# refused: %s\n", e.msg);
    return e;
}

void fixture_commit(struct store_batch *batch)
{
    struct err e = {.msg = ""};
    int rc = store_commit_wait(batch, NULL, &e);

    CHECK_STR(e.msg, "");
    CHECK_INT(rc, 0);
}

struct store_session fixture_session(const char *id)
{
    return (struct store_session){
        .id = id,
        .mode = "persistent",
        .template = "python",
        .agent_id = "agent \"7\"; DROP TABLE sessions; --",
        .dialect = "v1",
        .owner = "o'neil",
        .min_isolation = "native",
        .spec = "{\"env\": {\"K\": \"\\u0000 gr\xc3\xbc\xc3\x9f \xf0\x9f\x90\x9a\\n\"}}\n",
        .created_ms = 1700000000001,
        .epoch = 3,
        .status = 1,
        .updated_ms = 1700000000002,
        .active_ms = 1700000000003,
        .expires_ms = INT64_MAX,
        .ended_ms = 0,
        .end_reason = "not yet",
        .executions = 12,
    };
}

struct store_execution fixture_execution(const char *id, const char *session_id, int number)
{
    return (struct store_execution){
        .id = id,
        .session_id = session_id,
        .number = number,
        .kind = "code",
        .language = "python",
        .idempotency = "key-1",
        .request = "{\"code\": \"print('\xe2\x82\xac')\"}",
        .created_ms = 1700000000010,
        .epoch = 3,
        .status = 0,
        .result = NULL,
        .started_ms = 1700000000011,
        .ended_ms = 0,
        .out_bytes = 5000000000,
        .err_bytes = -1,
    };
}

void fixture_put_session(struct store *st, const struct store_session *s)
{
    struct store_batch *batch = store_batch_new(st);

    store_put_session(batch, s);
    fixture_commit(batch);
}

void fixture_put_execution(struct store *st, const struct store_execution *x)
{
    struct store_batch *batch = store_batch_new(st);

    store_put_execution(batch, x);
    fixture_commit(batch);
}

bool fixture_has_execution(struct store *st, const char *id)
{
    struct store_execution *found = NULL;
    struct err e = {.code = ERR_NONE};
    int rc = store_get_execution(st, id, &found, &e);

    CHECK(rc == 0 || e.code == ERR_NOT_FOUND);
    free(found);
    return rc == 0;
}

void fixture_sql(const char *dir, const char *sql)
{
    char path[FIXTURE_PATH + 20];
    sqlite3 *db = NULL;

    snprintf(path, sizeof(path), "%s/husk.db", dir);
    CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
    CHECK_INT(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    CHECK_INT(sqlite3_close(db), SQLITE_OK);
}

void fixture_note(void *user, const struct store_result *r)
{
    struct fixture_outcomes *o = user;

    if (o->n < (int)ARRAY_LEN(o->last)) {
        o->last[o->n] = *r;
    }
    o->n++;
    o->done += r->outcome == STORE_DONE;
}

void fixture_start(struct store_batch *batch, struct fixture_outcomes *o)
{
    struct err e = {.msg = ""};

    CHECK_INT(store_commit(batch, fixture_note, o, &e), 0);
}

void fixture_await(struct store *st, const struct fixture_outcomes *o, int n)
{
    while (o->n < n) {
        struct pollfd p = {.fd = store_fd(st), .events = POLLIN};

        CHECK(poll(&p, 1, 20000) == 1);
        store_dispatch(st);
    }
    CHECK_INT(o->n, n);
}

void fixture_hold_writer(struct store *st, struct fixture_outcomes *o)
{
    struct store_batch *batch = store_batch_new(st);

    store_put_template(batch, &(struct store_template){.name = "holds"});
    fault_vfs_hold();
    fixture_start(batch, o);
    fault_vfs_wait_until_held();
}

void fixture_start_execution(struct store *st, const char *id, struct fixture_outcomes *o)
{
    struct store_batch *batch = store_batch_new(st);
    struct store_execution x = fixture_execution(id, "", 1);

    store_put_execution(batch, &x);
    fixture_start(batch, o);
}
