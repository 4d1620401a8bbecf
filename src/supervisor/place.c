/* SPDX-License-Identifier: Apache-2.0 */
/* The data folder and who holds it; see supervisor.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/parse.h"
#include "base/str.h"
#include "supervisor/supervisor.h"

static int pid_path(const struct config *c, char *ret, size_t size, struct err *e)
{
    return str_format(ret, size, "%s/husk.pid", c->data) < 0
               ? err_set(e, ERR_INVALID, "the path of the data folder is too long")
               : 0;
}

/* Like mkdir -p; folders on the way belong to us, the last one to the account. */
static int make_folders(const char *path, struct err *e)
{
    char part[4200];

    if (str_copy(part, sizeof(part), path) < 0) {
        return err_set(e, ERR_INVALID, "the path of the data folder is too long");
    }
    for (char *p = part + 1; *p != '\0'; p++) {
        if (*p == '/') {
            *p = '\0';
            if (mkdir(part, 0755) < 0 && errno != EEXIST) {
                return err_sys(e, errno, "make %s", part);
            }
            *p = '/';
        }
    }
    if (mkdir(part, 0700) < 0 && errno != EEXIST) {
        return err_sys(e, errno, "make %s", part);
    }
    return 0;
}

/* Files that another account left there could not be opened: better said now than by a database. */
static int check_owner(const char *path, uid_t owner, gid_t group, struct err *e)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0) {
        return err_sys(e, errno, "open %s", path);
    }
    if (st.st_uid == owner) {
        return 0;
    }
    if (geteuid() == 0 && st.st_uid == 0) {
        return fchown(fd, owner, group) < 0 ? err_sys(e, errno, "give %s away", path) : 0;
    }
    return err_set(e, ERR_INVALID, "%s belongs to another account (id %u): choose another --data",
                   path, (unsigned)st.st_uid);
}

int place_prepare(const struct config *c, struct err *e)
{
    return make_folders(c->data, e);
}

int place_take(const struct config *c, uid_t owner, gid_t group, bool *ret_was_left, struct err *e)
{
    char path[4300];
    char text[16];
    struct stat st;

    if (pid_path(c, path, sizeof(path), e) < 0 || make_folders(c->data, e) < 0 ||
        check_owner(c->data, owner, group, e) < 0) {
        return -1;
    }
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0) {
        return err_sys(e, errno, "open %s", path);
    }
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        pid_t holder = 0;
        struct err ignored;
        (void)place_holder(c, &holder, &ignored);
        fd_close(&fd);
        return err_set(e, ERR_EXISTS,
                       "husk is up already with %s (process %d): `husk down --data %s` ends it, or "
                       "choose another --data",
                       c->data, (int)holder, c->data);
    }
    *ret_was_left = fstat(fd, &st) == 0 && st.st_size > 0;
    (void)str_format(text, sizeof(text), "%d\n", (int)getpid());
    if (ftruncate(fd, 0) < 0 || pwrite(fd, text, strlen(text), 0) < 0) {
        err_sys(e, errno, "write %s", path);
        fd_close(&fd);
        return -1;
    }
    return fd;
}

void place_leave(const struct config *c, int fd)
{
    char path[4300];
    struct err ignored;

    if (pid_path(c, path, sizeof(path), &ignored) == 0) {
        (void)unlink(path);
    }
    fd_close(&fd);
}

int place_holder(const struct config *c, pid_t *ret, struct err *e)
{
    char path[4300];
    char text[16];

    if (pid_path(c, path, sizeof(path), e) < 0) {
        return -1;
    }
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) == 0) { /* not there, or nobody holds it */
        return err_set(e, ERR_NOT_FOUND, "husk is not up with %s", c->data);
    }
    ssize_t n = read(fd, text, sizeof(text) - 1);
    if (n <= 0) {
        return err_set(e, ERR_NOT_FOUND, "husk is just starting with %s", c->data);
    }
    text[n] = '\0';
    *ret = (pid_t)strtol(text, NULL, 10);
    return *ret > 1 ? 0 : err_set(e, ERR_INVALID, "%s holds no process id", path);
}
