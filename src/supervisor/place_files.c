/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor's own files in the data folder; see place.h. Each is opened beneath the folder's
 * descriptor and must be a plain file with one name that belongs to the user of the supervisor.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "supervisor/place.h"

#define PID_FILE "husk.pid"
#define LOG_FILE "husk.log"
#define LOG_BEFORE "husk.log.1"
#define SETTINGS_FILE "settings"
#define SETTINGS_NEW "settings.new"

/* O_NONBLOCK: a pipe of that name must not block us. */
static int open_file(int folder, const struct config *c, const char *name, int flags, mode_t mode,
                     struct err *e)
{
    AUTO_CLOSE int fd = openat(folder, name, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, mode);
    struct stat st;

    if (fd < 0 && errno == ENOENT) {
        return err_set(e, ERR_NOT_FOUND, "there is no %s/%s", c->data, name);
    }
    if (fd < 0 || fstat(fd, &st) < 0) {
        return err_sys(e, errno, "cannot open %s/%s", c->data, name);
    }
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_nlink > 1) {
        return err_set(e, ERR_INVALID,
                       "%s/%s belongs to another account (id %u) or is no plain file: not trusted",
                       c->data, name, (unsigned)st.st_uid);
    }
    (void)fd_set_nonblock(fd, false);
    return take_fd(&fd);
}

/* ---- husk.pid ---- */

/*
 * The process that holds the lock on the pid file, from the kernel; the file's content is not
 * trusted. 0: none that is visible. Only write locks count: any process that can read the file can
 * take a read lock.
 */
static pid_t lock_holder(int fd)
{
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};

    return fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK ? lock.l_pid : 0;
}

/*
 * The locked file, or -1. No other user may read it: a reader could hold a lock that blocks ours.
 */
static int lock_file(int folder, const struct config *c, struct err *e)
{
    AUTO_CLOSE int fd = open_file(folder, c, PID_FILE, O_RDWR | O_CREAT, 0600, e);

    if (fd < 0) {
        return -1;
    }
    /* F_SETLK tells the holder's pid; closing any descriptor of the file releases it. */
    if (fcntl(fd, F_SETLK, &(struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET}) < 0) {
        if (errno != EAGAIN && errno != EACCES) {
            return err_sys(e, errno, "cannot lock %s/" PID_FILE, c->data);
        }
        return err_set(e, ERR_EXISTS,
                       "husk is up already with %s (process %d): `husk down --data %s` ends it, or "
                       "choose another --data",
                       c->data, (int)lock_holder(fd), c->data);
    }
    return take_fd(&fd);
}

int place_take(int folder, const struct config *c, bool *ret_was_left, struct err *e)
{
    char text[16];
    AUTO_CLOSE int fd = -1;
    struct stat st = {.st_nlink = 0};

    while (st.st_nlink == 0) { /* a server that was ending has removed the file that we opened */
        fd_close(&fd);
        fd = lock_file(folder, c, e);
        if (fd < 0) {
            return -1;
        }
        if (fstat(fd, &st) < 0) {
            return err_sys(e, errno, "cannot look at %s/" PID_FILE, c->data);
        }
    }
    *ret_was_left = st.st_size > 0;
    (void)str_format(text, sizeof(text), "%d\n", (int)getpid());
    if (ftruncate(fd, 0) < 0 || pwrite(fd, text, strlen(text), 0) < 0) {
        return err_sys(e, errno, "cannot write %s/" PID_FILE, c->data);
    }
    return take_fd(&fd);
}

void place_leave(int folder, int pid_file)
{
    (void)unlinkat(folder, PID_FILE, 0);
    fd_close(&pid_file);
}

int place_holder(int folder, const struct config *c, pid_t *ret, struct err *e)
{
    AUTO_CLOSE int fd = open_file(folder, c, PID_FILE, O_RDONLY, 0, e);

    if (fd < 0 && e->code != ERR_NOT_FOUND) {
        return -1;
    }
    pid_t pid = fd < 0 ? 0 : lock_holder(fd);
    if (pid <= 0) {
        return err_set(e, ERR_NOT_FOUND, "no server runs with the data directory %s", c->data);
    }
    *ret = pid;
    return 0;
}

/* ---- husk.log ---- */

int place_open_log(int folder, const struct config *c, struct err *e)
{
    return open_file(folder, c, LOG_FILE, O_RDWR | O_CREAT | O_APPEND, 0640, e);
}

int place_rotate_log(int folder, const struct config *c, struct err *e)
{
    if (renameat(folder, LOG_FILE, folder, LOG_BEFORE) < 0 && errno != ENOENT) {
        return err_sys(e, errno, "cannot rename %s/" LOG_FILE, c->data);
    }
    return place_open_log(folder, c, e);
}

/* ---- settings ---- */

int place_save_settings(int folder, const struct config *c, const struct buf *text, struct err *e)
{
    /* A file of a failed attempt is removed, not reused. */
    (void)unlinkat(folder, SETTINGS_NEW, 0);
    AUTO_CLOSE int fd = open_file(folder, c, SETTINGS_NEW, O_WRONLY | O_CREAT | O_EXCL, 0600, e);
    if (fd < 0) {
        return -1;
    }
    int r = fd_write_all(fd, text->data, text->len);
    if (r == 0 && renameat(folder, SETTINGS_NEW, folder, SETTINGS_FILE) < 0) {
        r = -errno;
    }
    if (r < 0) {
        (void)unlinkat(folder, SETTINGS_NEW, 0);
        return err_sys(e, -r, "cannot write %s/" SETTINGS_FILE, c->data);
    }
    return 0;
}

int place_read_settings(int folder, const struct config *c, struct buf *text, struct err *e)
{
    AUTO_CLOSE int fd = open_file(folder, c, SETTINGS_FILE, O_RDONLY, 0, e);
    AUTO_FREE char *read = malloc(PLACE_SETTINGS_MAX);

    if (fd < 0) {
        return -1;
    }
    ssize_t n = read == NULL ? -ENOMEM : fd_read_all(fd, read, PLACE_SETTINGS_MAX);
    int r = n < 0 ? (int)n : buf_add(text, read, (size_t)n);
    return r < 0 ? err_sys(e, -r, "cannot read %s/" SETTINGS_FILE, c->data) : 0;
}
