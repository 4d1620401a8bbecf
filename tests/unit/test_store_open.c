/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of store/store.h: what is opened, what is refused and left as it was, and migrations. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/fd.h"
#include "store/migrations.h"
#include "store_fixture.h"
#include "tap.h"

#define FILE_MAX (1 << 20)

static size_t read_db(const char *dir, char *bytes)
{
    char path[FIXTURE_PATH + 20];

    snprintf(path, sizeof(path), "%s/husk.db", dir);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    ssize_t n = fd_read_all(fd, bytes, FILE_MAX);
    CHECK(n > 0);
    close(fd);
    return (size_t)n;
}

static void write_db(const char *dir, off_t at, const char *bytes, size_t n)
{
    char path[FIXTURE_PATH + 20];

    snprintf(path, sizeof(path), "%s/husk.db", dir);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    CHECK_INT(pwrite(fd, bytes, n, at), n);
    close(fd);
}

/* Opening fails, and the file is the same to the byte. */
static struct err refused_untouched(const char *dir)
{
    static char before[FILE_MAX];
    static char after[FILE_MAX];
    size_t n = read_db(dir, before);
    struct err e = fixture_open_fails(dir);

    CHECK_INT(read_db(dir, after), n);
    CHECK_INT(memcmp(before, after, n), 0);
    CHECK_INT(e.code, ERR_STORAGE);
    return e;
}

TEST(each_opening_starts_an_epoch_and_keeps_the_install_id)
{
    char dir[FIXTURE_PATH];
    char id[64] = "";

    fixture_dir(dir);
    for (int i = 1; i <= 4; i++) {
        struct store *st = fixture_open(dir);

        CHECK_INT(store_epoch(st), i);
        CHECK_INT(strlen(store_install_id(st)), 32);
        CHECK_STR(store_install_id(st), i == 1 ? store_install_id(st) : id);
        snprintf(id, sizeof(id), "%s", store_install_id(st));
        store_close(st);
    }
    fixture_remove(dir);
}

TEST(files_are_private)
{
    static const char *const names[] = {"husk.db", "husk.db-wal", "husk.db-shm", "lock"};
    char dir[FIXTURE_PATH];

    fixture_dir(dir);
    umask(0);
    struct store *st = fixture_open(dir);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char path[FIXTURE_PATH + 20];
        struct stat info;

        CASE("%s", names[i]);
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        CHECK_INT(stat(path, &info), 0);
        CHECK_INT(info.st_mode & 0777, 0600);
    }
    store_close(st);
    fixture_remove(dir);
}

TEST(a_second_opener_is_refused_and_told_by_whom)
{
    char dir[FIXTURE_PATH];
    char expected[FIXTURE_PATH + 60];
    int status = 0;

    fixture_dir(dir);
    snprintf(expected, sizeof(expected), "%s is in use by another daemon (pid %d)", dir,
             (int)getpid());
    struct store *st = fixture_open(dir);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        struct err e = fixture_open_fails(dir);

        CHECK_INT(e.code, ERR_CONFLICT);
        CHECK_STR(e.msg, expected);
        _exit(0);
    }
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK_INT(status, 0);

    struct err e = fixture_open_fails(dir); /* the same process is no exception */
    CHECK_INT(e.code, ERR_CONFLICT);
    store_close(st);
    store_close(fixture_open(dir));
    fixture_remove(dir);
}

TEST(a_newer_schema_is_refused_and_left_alone)
{
    char dir[FIXTURE_PATH];

    fixture_dir(dir);
    store_close(fixture_open(dir));
    fixture_sql(dir, "PRAGMA user_version = 99");
    struct err e = refused_untouched(dir);
    CHECK(strstr(e.msg, "schema version 99, this program knows up to 3") != NULL);
    fixture_sql(dir, "PRAGMA user_version = 3");
    store_close(fixture_open(dir));
    fixture_remove(dir);
}

/* The log of a killed newer daemon: closing the last connection would write it back. */
TEST(a_newer_schema_in_the_log_is_refused_and_left_alone)
{
    char dir[FIXTURE_PATH];
    int status = 0;

    fixture_dir(dir);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        (void)fixture_open(dir); /* leaves the tables in the log */
        fixture_sql(dir, "PRAGMA user_version = 99");
        _exit(0);
    }
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK_INT(status, 0);
    struct err e = refused_untouched(dir);
    CHECK(strstr(e.msg, "schema version 99") != NULL);
    fixture_remove(dir);
}

TEST(a_database_of_another_program_is_refused)
{
    char dir[FIXTURE_PATH];

    fixture_dir(dir);
    fixture_sql(dir, "CREATE TABLE theirs (a)");
    struct err e = refused_untouched(dir);
    CHECK(strstr(e.msg, "is a database of another program") != NULL);
    fixture_remove(dir);
}

TEST(a_file_that_is_no_database_is_refused)
{
    char dir[FIXTURE_PATH];
    char text[5000];

    fixture_dir(dir);
    memset(text, 'x', sizeof(text));
    write_db(dir, 0, text, sizeof(text));
    struct err e = refused_untouched(dir);
    CHECK(strstr(e.msg, "file is not a database") != NULL);
    CHECK(strstr(e.msg, dir) != NULL);
    fixture_remove(dir);
}

TEST(a_damaged_page_is_found_at_the_start)
{
    char dir[FIXTURE_PATH];
    char garbage[4096];

    fixture_dir(dir);
    struct store *st = fixture_open(dir);
    struct store_batch *batch = store_batch_new(st);
    for (int i = 0; i < 200; i++) {
        char id[20] = "";
        struct store_execution x = fixture_execution(id, "", 1);

        snprintf(id, sizeof(id), "x-%d", i);
        store_put_execution(batch, &x);
    }
    fixture_commit(batch);
    store_close(st);
    memset(garbage, 0x5a, sizeof(garbage));
    static char bytes[FILE_MAX];
    size_t pages = read_db(dir, bytes) / sizeof(garbage);
    CHECK(pages > 10);
    write_db(dir, (off_t)((pages - 3) * sizeof(garbage)), garbage, sizeof(garbage));
    struct err e = refused_untouched(dir);
    CHECK(strstr(e.msg, "damaged") != NULL);
    fixture_remove(dir);
}

TEST(a_truncated_file_is_refused)
{
    char dir[FIXTURE_PATH];
    char path[FIXTURE_PATH + 20];

    fixture_dir(dir);
    store_close(fixture_open(dir));
    snprintf(path, sizeof(path), "%s/husk.db", dir);
    CHECK_INT(truncate(path, 3 * 4096), 0);
    (void)refused_untouched(dir);
    fixture_remove(dir);
}

TEST(a_missing_directory_is_named)
{
    struct err e = fixture_open_fails("/nonexistent/husk");

    CHECK(strstr(e.msg, "/nonexistent/husk") != NULL);
    CHECK_INT(e.sys_errno, ENOENT);
}

TEST(a_read_only_directory_is_refused)
{
    char dir[FIXTURE_PATH];

    fixture_dir(dir);
    store_close(fixture_open(dir));
    if (unshare(CLONE_NEWNS) != 0) {
        fixture_remove(dir);
        SKIP("mounting needs root");
    }
    CHECK_INT(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    CHECK_INT(mount(dir, dir, NULL, MS_BIND, NULL), 0);
    CHECK_INT(mount(NULL, dir, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL), 0);
    struct err e = fixture_open_fails(dir);
    CHECK_INT(e.code, ERR_STORAGE);
    CHECK_INT(e.sys_errno, EROFS);
    CHECK_INT(umount(dir), 0);
    store_close(fixture_open(dir));
    fixture_remove(dir);
}

TEST(a_relative_directory_survives_a_change_of_the_working_directory)
{
    char dir[FIXTURE_PATH];

    fixture_dir(dir);
    CHECK_INT(chdir(dir), 0);
    struct store *st = fixture_open(".");
    CHECK_INT(chdir("/"), 0);
    struct store_execution x = fixture_execution("x", "", 1);
    fixture_put_execution(st, &x);
    store_close(st);
    fixture_remove(dir);
}

/* ---- migrations, with tables of our own ---- */

struct animal {
    const char *id;
    int legs;
    const char *sound;
};

static const struct column columns_1[] = {
    {"id", offsetof(struct animal, id), .kind = COLUMN_TEXT, .is_fixed = true},
    {"legs", offsetof(struct animal, legs), .kind = COLUMN_INT},
};
static const struct column columns_2[] = {
    {"id", offsetof(struct animal, id), .kind = COLUMN_TEXT, .is_fixed = true},
    {"legs", offsetof(struct animal, legs), .kind = COLUMN_INT},
    {"sound", offsetof(struct animal, sound), .kind = COLUMN_TEXT, .since = 2},
};
static const struct record tables_1[] = {
    {"animals", "animal", sizeof(struct animal), columns_1, 2, 1, "UNIQUE (id)", "", 0},
};
static const struct record tables_2[] = {
    {"animals", "animal", sizeof(struct animal), columns_2, 3, 1, "UNIQUE (id)", "", 0},
    {"plants", "plant", sizeof(struct animal), columns_1, 2, 1, "UNIQUE (id)", "", 2},
};
/* Its second table is there already: that migration must fail as a whole. */
static const struct record tables_broken[] = {
    {"animals", "animal", sizeof(struct animal), columns_2, 3, 1, "UNIQUE (id)", "", 0},
    {"animals", "animal", sizeof(struct animal), columns_1, 2, 1, "UNIQUE (id)", "", 2},
};
static const struct schema schema_1 = {1, tables_1, ARRAY_LEN(tables_1)};
static const struct schema schema_2 = {2, tables_2, ARRAY_LEN(tables_2)};
static const struct schema schema_broken = {2, tables_broken, ARRAY_LEN(tables_broken)};

static void open_memory(struct conn *c)
{
    struct err e;

    CHECK_INT(conn_open(c, ":memory:", &e), 0);
}

static int64_t ask(struct conn *c, const char *sql)
{
    struct err e = {.msg = ""};
    int64_t answer = -1;
    int rc = conn_int(c, sql, &answer, &e);

    CHECK_STR(e.msg, "");
    CHECK_INT(rc, 0);
    return answer;
}

TEST(an_older_file_gains_columns_and_tables_and_keeps_its_rows)
{
    static struct conn c;
    struct err e = {.msg = ""};

    open_memory(&c);
    CHECK_INT(schema_migrate(&c, &schema_1, &e), 0);
    CHECK_INT(conn_exec(&c, "INSERT INTO animals (id, legs) VALUES ('cow', 4)", &e), 0);
    CHECK_INT(schema_check(&c, &schema_2, "file", &e), 0);
    CHECK_INT(schema_migrate(&c, &schema_2, &e), 0);
    CHECK_INT(ask(&c, "PRAGMA user_version"), 2);
    CHECK_INT(ask(&c, "SELECT legs FROM animals WHERE id = 'cow' AND sound = ''"), 4);
    CHECK_INT(ask(&c, "SELECT count(*) FROM plants"), 0);
    CHECK_INT(schema_migrate(&c, &schema_2, &e), 0);
    CHECK_INT(schema_check(&c, &schema_1, "file", &e), -1);
    conn_close(&c);
}

TEST(a_new_file_has_the_same_tables_as_a_migrated_one)
{
    static struct conn c;
    struct err e = {.msg = ""};

    open_memory(&c);
    CHECK_INT(schema_migrate(&c, &schema_2, &e), 0);
    CHECK_STR(e.msg, "");
    CHECK_INT(ask(&c, "SELECT count(*) FROM pragma_table_info('animals')"), 4); /* and seq */
    CHECK_INT(ask(&c, "SELECT count(*) FROM pragma_table_info('plants')"), 3);
    conn_close(&c);
}

TEST(a_migration_that_fails_leaves_the_old_version)
{
    static struct conn c;
    struct err e = {.msg = ""};

    open_memory(&c);
    CHECK_INT(schema_migrate(&c, &schema_1, &e), 0);
    CHECK_INT(schema_migrate(&c, &schema_broken, &e), -1);
    CHECK(strstr(e.msg, "schema version 1 to 2") != NULL);
    CHECK_INT(ask(&c, "PRAGMA user_version"), 1);
    CHECK_INT(ask(&c, "SELECT count(*) FROM pragma_table_info('animals')"), 3);
    conn_close(&c);
}
