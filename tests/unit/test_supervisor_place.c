/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor's files in the data folder: its holder, and which files it does not trust even
 * though they are in a folder of its own.
 */
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>

#include "place_fixture.h"

/* A process that does so and waits. */
static pid_t start(void (*begin)(const char *path), const char *path)
{
    int ready[2];
    char byte;

    CHECK_INT(pipe2(ready, O_CLOEXEC), 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        begin(path);
        CHECK_INT(write(ready[1], "", 1), 1);
        for (;;) {
            pause();
        }
    }
    fd_close(&ready[1]);
    CHECK_INT(read(ready[0], &byte, 1), 1);
    fd_close(&ready[0]);
    return pid;
}

static void end(pid_t pid)
{
    CHECK_INT(kill(pid, SIGKILL), 0);
    CHECK_INT(waitpid(pid, NULL, 0), pid);
}

static int open_place(void)
{
    struct err e = {0};

    make_top();
    int fd = place_open(&config, &e);
    CHECK_STR(e.msg, "");
    CHECK(fd >= 0);
    return fd;
}

/* ---- the holder ---- */

static void take(const char *path)
{
    struct err e = {0};
    bool was_left = true;
    int fd = place_look(&config, &e);

    CHECK(path != NULL);
    CHECK(place_take(fd, &config, &was_left, &e) >= 0);
    CHECK(!was_left);
}

TEST(the_holder_is_who_holds_the_lock_whatever_is_written)
{
    char path[PATH_SIZE];
    struct err e = {0};
    bool was_left = false;
    pid_t found = 0;
    AUTO_CLOSE int place = open_place();

    in_folder("husk.pid", path);
    CHECK_INT(place_holder(place, &config, &found, &e), -1);
    CHECK_INT(e.code, ERR_NOT_FOUND);
    pid_t holder = start(take, path);
    CHECK_INT(place_holder(place, &config, &found, &e), 0);
    CHECK_INT(found, holder);
    CHECK_INT(fd_write_file(AT_FDCWD, path, SECRET), 0);
    CHECK_INT(place_holder(place, &config, &found, &e), 0);
    CHECK_INT(found, holder);
    CHECK_INT(place_take(place, &config, &was_left, &e), -1);
    CHECK_INT(e.code, ERR_EXISTS);

    end(holder);
    CHECK_INT(place_holder(place, &config, &found, &e), -1);
    CHECK_INT(e.code, ERR_NOT_FOUND);
    int fd = place_take(place, &config, &was_left, &e);
    CHECK(fd >= 0);
    CHECK(was_left);
    place_leave(place, fd);
    CHECK(!is_there(path));
    remove_top();
}

/* ---- files that are not ours ---- */

/* Every lock that the account can get. */
static void lock_as_account(const char *path)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    CHECK_INT(setgid(ACCOUNT), 0);
    CHECK_INT(setuid(ACCOUNT), 0);
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        lock.l_type = F_RDLCK;
    }
    if (fd >= 0) {
        (void)fcntl(fd, F_SETLK, &lock);
        (void)flock(fd, LOCK_EX | LOCK_NB);
    }
}

TEST(a_pid_file_from_the_account_names_nobody_and_is_not_written)
{
    char path[PATH_SIZE];
    struct err e = {0};
    bool was_left = false;
    pid_t found = 0;

    if (geteuid() != 0) {
        SKIP("needs root and another account");
    }
    AUTO_CLOSE int place = open_place();
    in_folder("husk.pid", path);
    for (size_t i = 0; i < ARRAY_LEN(planted); i++) {
        CASE("%s", planted[i].name);
        planted[i].put(path);
        pid_t account = start(lock_as_account, path);
        CHECK_INT(place_holder(place, &config, &found, &e), -1);
        CHECK_INT(place_take(place, &config, &was_left, &e), -1);
        end(account);
        if (!planted[i].is_ours) {
            CHECK_INT(place_take(place, &config, &was_left, &e), -1);
        }
        check_victim();
        CHECK_INT(unlink(path), 0);
    }
    remove_top();
}

static int open_log(int place, struct err *e)
{
    return place_open_log(place, &config, e);
}

static int read_settings(int place, struct err *e)
{
    AUTO_BUF struct buf text = BUF_INIT(PLACE_SETTINGS_MAX);

    return place_read_settings(place, &config, &text, e) < 0 ? -1 : open("/dev/null", O_RDONLY);
}

TEST(log_and_settings_from_the_account_are_neither_read_nor_written)
{
    static const struct {
        const char *file;
        int (*open)(int place, struct err *e);
    } rows[] = {{"husk.log", open_log}, {"settings", read_settings}};
    char path[PATH_SIZE];
    struct err e = {0};

    if (geteuid() != 0) {
        SKIP("needs root and another account");
    }
    AUTO_CLOSE int place = open_place();
    for (size_t i = 0; i < ARRAY_LEN(rows) * ARRAY_LEN(planted); i++) {
        size_t which = i % ARRAY_LEN(planted);

        CASE("%s is %s", rows[i / ARRAY_LEN(planted)].file, planted[which].name);
        in_folder(rows[i / ARRAY_LEN(planted)].file, path);
        planted[which].put(path);
        AUTO_CLOSE int reader = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK); /* of the pipe */
        CHECK(reader >= 0);
        AUTO_CLOSE int fd = rows[i / ARRAY_LEN(planted)].open(place, &e);
        CHECK_INT(fd >= 0, planted[which].is_ours);
        check_victim();
        CHECK_INT(unlink(path), 0);
    }
    remove_top();
}

TEST(saved_settings_are_read_back_and_replace_a_trap)
{
    AUTO_BUF struct buf text = BUF_INIT(64);
    AUTO_BUF struct buf again = BUF_INIT(64);
    char path[PATH_SIZE];
    struct err e = {0};
    AUTO_CLOSE int place = open_place();

    CHECK_INT(place_read_settings(place, &config, &again, &e), -1);
    CHECK_INT(e.code, ERR_NOT_FOUND);
    in_folder("settings.new", path);
    put_link(path);
    in_folder("settings", path);
    put_link(path);
    CHECK_INT(buf_add(&text, "pids=1", 7), 0);
    CHECK_INT(place_save_settings(place, &config, &text, &e), 0);
    check_text(victim, SECRET);
    check_owner(path, geteuid(), 0600);
    CHECK_INT(place_read_settings(place, &config, &again, &e), 0);
    CHECK_INT(again.len, 7);
    CHECK_STR(again.data, "pids=1");
    remove_top();
}

TEST(a_log_that_is_renamed_leaves_an_empty_one)
{
    char path[PATH_SIZE];
    struct err e = {0};
    AUTO_CLOSE int place = open_place();
    AUTO_CLOSE int first = place_open_log(place, &config, &e);

    CHECK_INT(fd_write_all(first, "old\n", 4), 0);
    AUTO_CLOSE int second = place_rotate_log(place, &config, &e);
    CHECK(second >= 0);
    CHECK_INT(fd_write_all(second, "new\n", 4), 0);
    in_folder("husk.log.1", path);
    check_text(path, "old\n");
    in_folder("husk.log", path);
    check_text(path, "new\n");
    AUTO_CLOSE int third = place_rotate_log(place, &config, &e);
    CHECK(third >= 0);
    in_folder("husk.log.1", path);
    check_text(path, "new\n");
    remove_top();
}
