/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data folder: who holds it, and files that its owner, the daemon's account, has put there for
 * root to find.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "supervisor/supervisor.h"
#include "tap.h"

#define ACCOUNT 65534
#define SECRET "1\n" /* of root; also the number of a process that nobody may end */

static char folder[] = "/tmp/husk-place-XXXXXX";
static char victim[] = "/tmp/husk-place-victim-XXXXXX"; /* a file of root's elsewhere */
static struct config config = {.data = folder};

static void make_folder(void)
{
    CHECK(mkdtemp(folder) != NULL);
    int fd = mkstemp(victim);
    CHECK_INT(fd_write_all(fd, SECRET, strlen(SECRET)), 0);
    fd_close(&fd);
}

static void in_folder(const char *name, char ret[64])
{
    CHECK_INT(str_format(ret, 64, "%s/%s", folder, name), 0);
}

static void remove_folder(void)
{
    CHECK_INT(unlink(victim), 0);
    CHECK_INT(rmdir(folder), 0);
}

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

/* ---- who holds it ---- */

static void take(const char *path)
{
    struct err e = {0};
    bool was_left = true;

    CHECK(path != NULL);
    CHECK(place_take(&config, geteuid(), getegid(), &was_left, &e) >= 0);
    CHECK(!was_left);
}

TEST(the_holder_is_who_holds_the_lock_whatever_is_written)
{
    char path[64];
    struct err e = {0};
    bool was_left = false;
    pid_t found = 0;

    make_folder();
    in_folder("husk.pid", path);
    CHECK_INT(place_holder(&config, &found, &e), -1);
    CHECK_INT(e.code, ERR_NOT_FOUND);
    pid_t holder = start(take, path);
    CHECK_INT(place_holder(&config, &found, &e), 0);
    CHECK_INT(found, holder);
    CHECK_INT(fd_write_file(AT_FDCWD, path, SECRET), 0);
    CHECK_INT(place_holder(&config, &found, &e), 0);
    CHECK_INT(found, holder);
    CHECK_INT(place_take(&config, geteuid(), getegid(), &was_left, &e), -1);
    CHECK_INT(e.code, ERR_EXISTS);

    end(holder);
    CHECK_INT(place_holder(&config, &found, &e), -1);
    CHECK_INT(e.code, ERR_NOT_FOUND);
    int fd = place_take(&config, geteuid(), getegid(), &was_left, &e);
    CHECK(fd >= 0);
    CHECK(was_left);
    place_leave(&config, fd);
    remove_folder();
}

/* ---- what the account may put there ---- */

static void put_file_of_the_account(const char *path)
{
    AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

    CHECK_INT(fd_write_all(fd, SECRET, strlen(SECRET)), 0);
    CHECK_INT(fchown(fd, ACCOUNT, ACCOUNT), 0);
}

static void put_file_of_root(const char *path)
{
    AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

    CHECK_INT(fd_write_all(fd, SECRET, strlen(SECRET)), 0);
}

static void put_second_name(const char *path)
{
    CHECK_INT(link(victim, path), 0);
}

static void put_link(const char *path)
{
    CHECK_INT(symlink(victim, path), 0);
}

static void put_pipe(const char *path)
{
    CHECK_INT(mkfifo(path, 0666), 0);
}

/* Every lock that the account can get. */
static void lock_as_account(const char *path)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    CHECK_INT(chown(folder, ACCOUNT, ACCOUNT), 0);
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

static const struct {
    const char *name;
    void (*put)(const char *path);
    bool is_ours; /* nothing is wrong with the file itself */
} planted[] = {
    {"a file of the account", put_file_of_the_account, false},
    {"a file that root left there", put_file_of_root, true},
    {"a second name of a file of root's", put_second_name, false},
    {"a link to a file of root's", put_link, false},
    {"a pipe", put_pipe, false},
};

static void check_victim(void)
{
    char text[16];
    struct stat st;

    CHECK_INT(fd_read_file(AT_FDCWD, victim, text, sizeof(text)), strlen(SECRET));
    CHECK_STR(text, SECRET);
    CHECK_INT(stat(victim, &st), 0);
    CHECK_INT(st.st_uid, 0);
}

TEST(a_pid_file_from_the_account_names_nobody_and_is_not_written)
{
    char path[64];
    struct err e = {0};
    bool was_left = false;
    pid_t found = 0;

    if (geteuid() != 0) {
        SKIP("needs root and another account");
    }
    make_folder();
    in_folder("husk.pid", path);
    for (size_t i = 0; i < ARRAY_LEN(planted); i++) {
        CASE("%s", planted[i].name);
        planted[i].put(path);
        pid_t account = start(lock_as_account, path);
        CHECK_INT(place_holder(&config, &found, &e), -1);
        CHECK_INT(place_take(&config, ACCOUNT, ACCOUNT, &was_left, &e), -1);
        end(account);
        if (!planted[i].is_ours) {
            CHECK_INT(place_take(&config, ACCOUNT, ACCOUNT, &was_left, &e), -1);
        }
        check_victim();
        CHECK_INT(unlink(path), 0);
    }
    remove_folder();
}

TEST(a_log_from_the_account_is_not_written_and_holds_nobody)
{
    char path[64];
    struct err e = {0};

    if (geteuid() != 0) {
        SKIP("needs root and another account");
    }
    make_folder();
    in_folder("husk.log", path);
    for (size_t i = 0; i < ARRAY_LEN(planted); i++) {
        CASE("%s", planted[i].name);
        planted[i].put(path);
        AUTO_CLOSE int reader = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* of the pipe */
        CHECK(reader >= 0);
        AUTO_CLOSE int log = place_open_log(&config, &e);
        CHECK_INT(log >= 0, planted[i].is_ours);
        check_victim();
        CHECK_INT(unlink(path), 0);
    }
    put_pipe(path);
    CHECK_INT(place_open_log(&config, &e), -1); /* and nobody reads */
    CHECK_INT(unlink(path), 0);
    remove_folder();
}

TEST(a_folder_of_roots_is_not_given_away_through_a_link)
{
    static const struct {
        const char *name;
        uid_t owner;
        bool is_taken;
    } rows[] = {{"link", 0, false}, {"link/", 0, false}, {"link", ACCOUNT, true}, {"own", 0, true}};
    char own[64];
    char link[64];
    char given[64];
    struct err e = {0};
    struct stat st;
    bool was_left = false;

    if (geteuid() != 0) {
        SKIP("only root gives folders away");
    }
    make_folder();
    in_folder("own", own);
    in_folder("link", link);
    CHECK_INT(mkdir(own, 0700), 0);
    CHECK_INT(symlink(own, link), 0);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct config c = {.data = given};

        CASE("%s, of %u", rows[i].name, (unsigned)rows[i].owner);
        in_folder(rows[i].name, given);
        CHECK_INT(chown(own, rows[i].owner, 0), 0);
        int fd = place_take(&c, ACCOUNT, ACCOUNT, &was_left, &e);
        CHECK_INT(fd >= 0, rows[i].is_taken);
        CHECK_INT(stat(own, &st), 0);
        CHECK_INT(st.st_uid, rows[i].is_taken ? ACCOUNT : 0);
        if (fd >= 0) {
            place_leave(&c, fd);
        }
    }
    CHECK_INT(unlink(link), 0);
    CHECK_INT(rmdir(own), 0);
    remove_folder();
}
