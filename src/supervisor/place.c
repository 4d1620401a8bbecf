/* SPDX-License-Identifier: Apache-2.0 */
/* The data folder and who holds it; see supervisor.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/dirs.h"
#include "base/fd.h"
#include "base/str.h"
#include "supervisor/supervisor.h"

static int pid_path(const struct config *c, char *ret, size_t size, struct err *e)
{
    return str_format(ret, size, "%s/husk.pid", c->data) < 0
               ? err_set(e, ERR_INVALID, "the path of the data folder is too long")
               : 0;
}

/* What a data folder holds; lost+found is in every new file system. */
static bool is_known(const char *name)
{
    static const char *const known[] = {
        ".",    "..",       "lost+found", "husk.*",    "agents.json*",
        "lock", "script-*", "spool",      "templates", "workspaces"};

    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (fnmatch(known[i], name, 0) == 0) {
            return true;
        }
    }
    return false;
}

/* A folder of root's will be given away: one that others need, such as / or a home, must not be. */
static int check_content(const char *path, struct err *e)
{
    struct stat st;
    int r = 0;

    if (geteuid() != 0 || stat(path, &st) < 0 || st.st_uid != 0) {
        return 0;
    }
    DIR *d = opendir(path);
    if (d == NULL) {
        return err_sys(e, errno, "open %s", path);
    }
    for (struct dirent *entry = readdir(d); entry != NULL && r == 0; entry = readdir(d)) {
        if (!is_known(entry->d_name)) {
            r = err_set(
                e, ERR_INVALID,
                "%s is no data folder, it holds %.64s: name a new or an empty one as --data", path,
                entry->d_name);
        }
    }
    closedir(d);
    return r;
}

/* Like mkdir -p; folders on the way belong to us, the last one to the account. */
static int make_folders(const char *path, struct err *e)
{
    bool is_root = geteuid() == 0;
    mode_t mask = is_root ? umask(022) : 0; /* the account must get in, whatever root's is */
    int r = dirs_make_parents(path, 0755);

    if (is_root) {
        umask(mask);
    }
    if (r == 0 && mkdir(path, 0700) < 0 && errno != EEXIST) {
        r = -errno;
    }
    return r < 0 ? err_sys(e, -r, "make %s", path) : check_content(path, e);
}

/* False for a link to it. A slash at the end would follow one. */
static bool is_named(const struct stat *folder, const char *path)
{
    char name[4200];
    struct stat st;
    size_t n = strlen(path);

    while (n > 1 && path[n - 1] == '/') {
        n--;
    }
    return str_format(name, sizeof(name), "%.*s", (int)n, path) == 0 && lstat(name, &st) == 0 &&
           st.st_ino == folder->st_ino && st.st_dev == folder->st_dev;
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
        /* Who can write the folder above could have put a link to any folder there. */
        if (!is_named(&st, path)) {
            return err_set(e, ERR_INVALID,
                           "%s is a link to a folder of root's: name that as --data", path);
        }
        return fchown(fd, owner, group) < 0 ? err_sys(e, errno, "give %s away", path) : 0;
    }
    return err_set(e, ERR_INVALID, "%s belongs to another account (id %u): choose another --data",
                   path, (unsigned)st.st_uid);
}

int place_prepare(const struct config *c, struct err *e)
{
    return make_folders(c->data, e);
}

/*
 * In a folder of the account's any file can be under the name: a link, a pipe, a second name of a
 * file of ours. What we trust or write to was made by one of us.
 */
static int check_file(int fd, const char *path, struct err *e)
{
    struct stat st;

    if (fstat(fd, &st) < 0) {
        return err_sys(e, errno, "open %s", path);
    }
    if (!S_ISREG(st.st_mode) || (st.st_uid != geteuid() && st.st_uid != 0) || st.st_nlink > 1) {
        return err_set(e, ERR_INVALID,
                       "%s belongs to another account (id %u) or is no plain file: not trusted",
                       path, (unsigned)st.st_uid);
    }
    return 0;
}

/*
 * Who holds the pid file: the kernel knows, whatever is written in it. 0: nobody whom we could
 * see. Only writers count: everybody who can read the file can lock it for reading.
 */
static pid_t lock_holder(int fd)
{
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};

    return fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK ? lock.l_pid : 0;
}

int place_open_log(const struct config *c, struct err *e)
{
    char path[4300];

    if (str_format(path, sizeof(path), "%s/husk.log", c->data) < 0) {
        return err_set(e, ERR_INVALID, "the path of the data folder is too long");
    }
    AUTO_CLOSE int fd =
        open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0640);
    if (fd < 0) { /* a pipe without a reader, too */
        return err_sys(e, errno, "open %s", path);
    }
    if (check_file(fd, path, e) < 0) {
        return -1;
    }
    (void)fd_set_nonblock(fd, false);
    return take_fd(&fd);
}

/* The locked file; or -1. Nobody else may read it, for who reads can hold a lock against us. */
static int lock_file(const struct config *c, const char *path, struct err *e)
{
    AUTO_CLOSE int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return err_sys(e, errno, "open %s", path);
    }
    if (check_file(fd, path, e) < 0) {
        return -1;
    }
    /*
     * The kind of lock whose holder can be asked for; closing any descriptor of this file ends it.
     */
    if (fcntl(fd, F_SETLK, &(struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET}) < 0) {
        if (errno != EAGAIN && errno != EACCES) {
            return err_sys(e, errno, "lock %s", path);
        }
        return err_set(e, ERR_EXISTS,
                       "husk is up already with %s (process %d): `husk down --data %s` ends it, or "
                       "choose another --data",
                       c->data, (int)lock_holder(fd), c->data);
    }
    return take_fd(&fd);
}

int place_take(const struct config *c, uid_t owner, gid_t group, bool *ret_was_left, struct err *e)
{
    char path[4300];
    char text[16];
    AUTO_CLOSE int fd = -1;
    struct stat st = {.st_nlink = 0};

    if (pid_path(c, path, sizeof(path), e) < 0 || make_folders(c->data, e) < 0 ||
        check_owner(c->data, owner, group, e) < 0) {
        return -1;
    }
    while (st.st_nlink == 0) { /* else a server that was just ending has removed what we opened */
        fd_close(&fd);
        fd = lock_file(c, path, e);
        if (fd < 0) {
            return -1;
        }
        if (fstat(fd, &st) < 0) {
            return err_sys(e, errno, "stat %s", path);
        }
    }
    *ret_was_left = st.st_size > 0;
    (void)str_format(text, sizeof(text), "%d\n", (int)getpid());
    if (ftruncate(fd, 0) < 0 || pwrite(fd, text, strlen(text), 0) < 0) {
        return err_sys(e, errno, "write %s", path);
    }
    return take_fd(&fd);
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

    if (pid_path(c, path, sizeof(path), e) < 0) {
        return -1;
    }
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        return err_set(e, ERR_NOT_FOUND, "husk is not up with %s", c->data);
    }
    if (check_file(fd, path, e) < 0) {
        return -1;
    }
    pid_t pid = lock_holder(fd);
    if (pid <= 0) {
        return err_set(e, ERR_NOT_FOUND, "husk is not up with %s", c->data);
    }
    *ret = pid;
    return 0;
}
