/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of store/store.h: full disks and failing syncs are told, and lose nothing. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "fault_vfs.h"
#include "store_fixture.h"
#include "tap.h"

/* ---- syncs that fail ---- */

static struct err put_fails(struct store *st, const char *id)
{
    struct store_batch *batch = store_batch_new(st);
    struct store_execution x = fixture_execution(id, "", 1);
    struct store_result r;
    struct err e = {.code = ERR_NONE};

    store_put_execution(batch, &x);
    CHECK_INT(store_commit_wait(batch, &r, &e), -1);
    CHECK_INT(r.outcome, STORE_FAILED);
    CHECK_INT(e.code, ERR_STORAGE);
    return e;
}

static void put(struct store *st, const char *id)
{
    struct store_execution x = fixture_execution(id, "", 1);

    fixture_put_execution(st, &x);
}

static void copy_to(const char *from_dir, const char *to_dir, const char *name)
{
    static char bytes[4 << 20];
    char path[FIXTURE_PATH + 20];

    snprintf(path, sizeof(path), "%s/%s", from_dir, name);
    int in = open(path, O_RDONLY | O_CLOEXEC);
    snprintf(path, sizeof(path), "%s/%s", to_dir, name);
    int out = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(in >= 0 && out >= 0);
    ssize_t n = fd_read_all(in, bytes, sizeof(bytes));
    CHECK(n >= 0 && n < (ssize_t)sizeof(bytes));
    CHECK_INT(fd_write_all(out, bytes, (size_t)n), 0);
    close(in);
    close(out);
}

TEST(a_failed_sync_fails_the_batch_and_the_next_one_works)
{
    char dir[FIXTURE_PATH];
    struct store_stats stats;

    fault_vfs_install();
    fixture_dir(dir);
    struct store *st = fixture_open(dir);
    put(st, "before");
    fault_vfs_fail_syncs(1);
    (void)put_fails(st, "failed");
    CHECK(!fixture_has_execution(st, "failed"));
    put(st, "after");
    CHECK(!fixture_has_execution(st, "failed"));
    store_get_stats(st, &stats);
    CHECK_INT(stats.reopened, 1);
    CHECK_INT(stats.failed, 1);
    store_close(st);

    st = fixture_open(dir);
    CHECK(fixture_has_execution(st, "before") && fixture_has_execution(st, "after"));
    CHECK(!fixture_has_execution(st, "failed"));
    store_close(st);
    fixture_remove(dir);
}

/* The failed transaction is in the log file: a crash right after must not bring it back. */
TEST(a_batch_that_failed_stays_failed_over_a_crash)
{
    char dir[FIXTURE_PATH];
    char crashed[FIXTURE_PATH];

    fault_vfs_install();
    fixture_dir(dir);
    fixture_dir(crashed);
    struct store *st = fixture_open(dir);
    put(st, "before");
    fault_vfs_fail_syncs(1);
    (void)put_fails(st, "failed");
    copy_to(dir, crashed, "husk.db-wal"); /* not husk.db: closing it would drop SQLite's locks */
    store_close(st);
    copy_to(dir, crashed, "husk.db");

    st = fixture_open(crashed);
    CHECK(fixture_has_execution(st, "before"));
    CHECK(!fixture_has_execution(st, "failed"));
    store_close(st);
    fixture_remove(dir);
    fixture_remove(crashed);
}

TEST(a_disk_that_stays_broken_fails_every_batch_until_it_recovers)
{
    char dir[FIXTURE_PATH];

    fault_vfs_install();
    fixture_dir(dir);
    struct store *st = fixture_open(dir);
    put(st, "before");
    fault_vfs_fail_syncs(-1);
    for (int i = 0; i < 5; i++) {
        struct err e = put_fails(st, "failed");

        CHECK(strstr(e.msg, "disk I/O error") != NULL);
        CHECK(fixture_has_execution(st, "before")); /* reads go on */
        CHECK(!fixture_has_execution(st, "failed"));
    }
    fault_vfs_fail_syncs(0);
    put(st, "after");
    CHECK(!fixture_has_execution(st, "failed"));
    store_close(st);
    st = fixture_open(dir);
    CHECK(fixture_has_execution(st, "before") && fixture_has_execution(st, "after"));
    CHECK(!fixture_has_execution(st, "failed"));
    store_close(st);
    fixture_remove(dir);
}

/* ---- a full disk ---- */

static void mount_small(const char *dir, const char *options)
{
    if (unshare(CLONE_NEWNS) != 0) {
        SKIP("mounting needs root");
    }
    CHECK_INT(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    CHECK_INT(mount("none", dir, "tmpfs", 0, options), 0);
}

static int put_text(struct store *st, const char *id, const char *text, struct err *e)
{
    struct store_batch *batch = store_batch_new(st);
    struct store_execution x = fixture_execution(id, "", 1);

    x.result = text;
    store_put_execution(batch, &x);
    return store_commit_wait(batch, NULL, e);
}

TEST(a_full_disk_fails_typed_and_works_again_when_there_is_room)
{
    static char text[100001];
    char dir[FIXTURE_PATH];
    char ballast[FIXTURE_PATH + 20];
    bool acked[100] = {false};
    int failures = 0;

    memset(text, 'x', sizeof(text) - 1);
    fixture_dir(dir);
    mount_small(dir, "size=24m");
    snprintf(ballast, sizeof(ballast), "%s/ballast", dir);
    struct store *st = fixture_open(dir);
    int fd = open(ballast, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && posix_fallocate(fd, 0, 22 << 20) == 0);
    close(fd);

    for (int i = 0; i < 100; i++) {
        char id[40] = "";
        struct err e = {.code = ERR_NONE};

        snprintf(id, sizeof(id), "x-%d", i);
        if (i == 50) {
            CHECK(failures > 10); /* it was full indeed */
            CHECK_INT(unlink(ballast), 0);
        }
        acked[i] = put_text(st, id, text, &e) == 0;
        if (!acked[i]) {
            CHECK_INT(e.code, ERR_STORAGE);
            CHECK_INT(e.sys_errno, ENOSPC);
            failures++;
        }
        CHECK(i < 50 || i > 52 || acked[i]);
        CHECK_INT(fixture_has_execution(st, id), acked[i]);
    }
    store_close(st);
    st = fixture_open(dir);
    for (int i = 0; i < 100; i++) {
        char id[40] = "";

        snprintf(id, sizeof(id), "x-%d", i);
        CHECK_INT(fixture_has_execution(st, id), acked[i]);
    }
    store_close(st);
    CHECK_INT(umount(dir), 0);
    fixture_remove(dir);
}

static void count_done(void *user, const struct store_result *r)
{
    *(int *)user += r->outcome == STORE_DONE;
}

TEST(a_batch_that_does_not_fit_takes_no_other_down)
{
    char dir[FIXTURE_PATH];
    struct err e;
    int small = 0;
    int large = 0;

    fault_vfs_install();
    fixture_dir(dir);
    mount_small(dir, "size=3m");
    char *text = calloc(1, (8UL << 20) + 1);
    CHECK(text != NULL);
    memset(text, 'x', 8UL << 20);
    struct store *st = fixture_open(dir);
    fault_vfs_hold();
    for (int i = 0; i < 12; i++) {
        char id[40] = "";
        struct store_execution x = fixture_execution(id, "", 1);
        struct store_batch *batch = store_batch_new(st);

        snprintf(id, sizeof(id), "x-%d", i);
        x.result = i == 5 ? text : NULL;
        store_put_execution(batch, &x);
        CHECK_INT(store_commit(batch, count_done, i == 5 ? &large : &small, &e), 0);
        if (i == 0) {
            fault_vfs_wait_until_held();
        }
    }
    fault_vfs_release();
    store_close(st);
    CHECK_INT(small, 11);
    CHECK_INT(large, 0);
    free(text);
    CHECK_INT(umount(dir), 0);
    fixture_remove(dir);
}

TEST(no_free_inode_is_a_storage_failure)
{
    char dir[FIXTURE_PATH];

    fixture_dir(dir);
    mount_small(dir, "size=8m,nr_inodes=2");
    struct err e = fixture_open_fails(dir);
    CHECK_INT(e.code, ERR_STORAGE);
    CHECK_INT(umount(dir), 0);
    fixture_remove(dir);
}

/* ---- the log ---- */

TEST(the_log_does_not_grow_without_bound)
{
    static char text[1000001];
    char dir[FIXTURE_PATH];
    char path[FIXTURE_PATH + 20];
    struct stat info;
    struct store_stats stats;
    struct err e;

    fixture_dir(dir);
    struct store *st = fixture_open(dir);
    for (int i = 0; i < 100; i++) {
        /* Another letter each time: SQLite does not write pages that stay the same. */
        memset(text, 'a' + i % 26, sizeof(text) - 1);
        CHECK_INT(put_text(st, "x", text, &e), 0);
    }
    snprintf(path, sizeof(path), "%s/husk.db-wal", dir);
    CHECK_INT(stat(path, &info), 0);
    CHECK(info.st_size < 24L << 20); /* of 100 MB written */
    store_get_stats(st, &stats);
    CHECK(stats.checkpoints >= 2);
    store_close(st);
    CHECK_INT(stat(path, &info), -1); /* written back and gone */
    fixture_remove(dir);
}

/* Somebody looks into the file with another program and leaves a transaction open. */
TEST(a_reader_that_stays_stops_nobody_and_the_log_shrinks_when_it_goes)
{
    static char text[1000001];
    char dir[FIXTURE_PATH];
    char path[FIXTURE_PATH + 20];
    struct stat info;
    sqlite3 *foreign = NULL;
    struct err e;
    uint64_t longest = 0;

    fixture_dir(dir);
    struct store *st = fixture_open(dir);
    put(st, "before");
    snprintf(path, sizeof(path), "%s/husk.db", dir);
    CHECK_INT(sqlite3_open(path, &foreign), SQLITE_OK);
    CHECK_INT(sqlite3_exec(foreign, "BEGIN; SELECT count(*) FROM keys", NULL, NULL, NULL), 0);
    for (int i = 0; i < 130; i++) {
        uint64_t began = clock_ms();

        if (i == 100) {
            CHECK_INT(sqlite3_close(foreign), SQLITE_OK);
        }
        memset(text, 'a' + i % 26, sizeof(text) - 1);
        CHECK_INT(put_text(st, "x", text, &e), 0);
        longest = longest > clock_ms() - began ? longest : clock_ms() - began;
    }
    CHECK(longest < 3000);
    snprintf(path, sizeof(path), "%s/husk.db-wal", dir);
    CHECK_INT(stat(path, &info), 0);
    CHECK(info.st_size < 24L << 20);
    store_close(st);
    fixture_remove(dir);
}
