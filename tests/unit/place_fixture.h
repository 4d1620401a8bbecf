/* SPDX-License-Identifier: Apache-2.0 */
/* A data folder of its own for each test, and what an account may leave in one. */
#pragma once

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "supervisor/place.h"
#include "tap.h"

#define ACCOUNT 65534
#define SECRET "1\n" /* of root; also the pid of a process that must not be ended */
#define PATH_SIZE 128

static char top[] = "/tmp/husk-place-XXXXXX"; /* root's, not writable for others */
static char folder[PATH_SIZE];                /* DATA, in it */
static char victim[PATH_SIZE];                /* a file of root's elsewhere */
static struct config config = {.data = folder, .user = (char[]){"nobody"}};

static inline void make_top(void)
{
    CHECK(mkdtemp(top) != NULL);
    CHECK_INT(chmod(top, 0755), 0);
    CHECK_INT(str_format(folder, sizeof(folder), "%s/data", top), 0);
    CHECK_INT(str_format(victim, sizeof(victim), "%s/victim", top), 0);
    int fd = open(victim, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    CHECK_INT(fd_write_all(fd, SECRET, strlen(SECRET)), 0);
    fd_close(&fd);
}

static inline void remove_top(void)
{
    char command[PATH_SIZE];
    pid_t pid = fork();

    CHECK_INT(str_format(command, sizeof(command), "rm -rf '%s'", top), 0);
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    CHECK_INT(waitpid(pid, NULL, 0), pid);
}

static inline void in_folder(const char *name, char ret[PATH_SIZE])
{
    CHECK_INT(str_format(ret, PATH_SIZE, "%s/%s", folder, name), 0);
}

static inline void put_text(const char *path, const char *text, uid_t owner)
{
    AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

    CHECK_INT(fd_write_all(fd, text, strlen(text)), 0);
    CHECK_INT(fchown(fd, owner, owner), 0);
}

static inline void check_text(const char *path, const char *text)
{
    char found[64];

    CASE("%s", path);
    CHECK_INT(fd_read_file(AT_FDCWD, path, found, sizeof(found)), strlen(text));
    CHECK_STR(found, text);
}

/* Whether there is such a name, wherever it leads. */
static inline bool is_there(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0;
}

static inline void check_owner(const char *path, uid_t owner, mode_t mode)
{
    struct stat st;

    CASE("%s", path);
    CHECK_INT(lstat(path, &st), 0);
    CHECK_INT(st.st_uid, owner);
    CHECK_INT(st.st_mode & 07777, mode);
}

static inline void check_victim(void)
{
    check_text(victim, SECRET);
    check_owner(victim, 0, 0600);
}

/* ---- what an account can leave under a name ---- */

static inline void put_file_of_the_account(const char *path)
{
    put_text(path, SECRET, ACCOUNT);
}

static inline void put_file_of_root(const char *path)
{
    put_text(path, SECRET, 0);
}

static inline void put_second_name(const char *path)
{
    CHECK_INT(link(victim, path), 0);
}

static inline void put_link(const char *path)
{
    CHECK_INT(symlink(victim, path), 0);
}

static inline void put_pipe(const char *path)
{
    CHECK_INT(mkfifo(path, 0666), 0);
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
