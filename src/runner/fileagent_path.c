/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening and making files beneath a directory; see fileagent_impl.h.
 *
 * Hostile code renames and links as it likes while this runs. An open descriptor stays what it was,
 * and the next lookup starts from there: no path is ever used twice.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/rand.h"
#include "base/str.h"
#include "runner/fileagent_impl.h"

#define TRIES 64 /* openat2() fails with EAGAIN when it races with a rename elsewhere */

int agent_open(int dir, const char *path, int flags, bool follow)
{
    struct open_how how = {
        .flags = (uint64_t)(unsigned)flags | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW),
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | (follow ? 0 : RESOLVE_NO_SYMLINKS),
    };

    for (int i = 0;; i++) {
        long fd = syscall(SYS_openat2, dir, path[0] != '\0' ? path : ".", &how, sizeof(how));
        if (fd >= 0) {
            return (int)fd;
        }
        if ((errno != EAGAIN && errno != EINTR) || i == TRIES) {
            return -errno;
        }
    }
}

int agent_open_forced(int dir, const char *name, int flags, mode_t need, mode_t *ret_mode)
{
    AUTO_CLOSE int entry = agent_open(dir, name, O_PATH, false);
    char self[40];
    struct stat st;

    if (entry < 0 || fstat(entry, &st) < 0) {
        return entry < 0 ? entry : -errno;
    }
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
        return -ELOOP; /* it was a file or a directory a moment ago */
    }
    *ret_mode = st.st_mode & 07777;
    (void)str_format(self, sizeof(self), "/proc/self/fd/%d", entry); /* this one, and no other */
    if ((*ret_mode & need) != need && chmod(self, *ret_mode | need) < 0) {
        return -errno;
    }
    int fd = open(self, flags | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

void agent_close_again(int fd, mode_t was, mode_t need)
{
    struct stat st;

    /* Unless its owner has changed it meanwhile. */
    if ((was & need) != need && fstat(fd, &st) == 0 && (st.st_mode & 07777) == (was | need)) {
        (void)fchmod(fd, was);
    }
}

int agent_open_parent(int root, const char *path, bool make, const char **ret_name)
{
    char parent[FILES_PATH_MAX + 1];
    const char *slash = strrchr(path, '/');
    size_t n = slash != NULL ? (size_t)(slash - path) : 0;
    bool made;

    memcpy(parent, path, n);
    parent[n] = '\0';
    *ret_name = slash != NULL ? slash + 1 : path;
    if (make) {
        return agent_make_dirs(root, parent, 0755, &made);
    }
    return agent_open(root, parent, O_PATH | O_DIRECTORY, false);
}

void agent_target(int dir, const char *name, const struct stat *st, char ret[FILES_PATH_MAX + 1])
{
    ssize_t n = S_ISLNK(st->st_mode) ? readlinkat(dir, name, ret, FILES_PATH_MAX) : 0;

    ret[n > 0 ? n : 0] = '\0'; /* the kernel's own limit is below ours */
}

/* One component: opened, or made and opened. */
static int enter(int dir, const char *name, mode_t mode, bool *made)
{
    *made = false;
    for (int i = 0; i < TRIES; i++) {
        int fd = agent_open(dir, name, O_PATH | O_DIRECTORY, false);
        if (fd != -ENOENT) {
            return fd;
        }
        if (mkdirat(dir, name, mode) == 0) {
            *made = true;
        } else if (errno != EEXIST) {
            return -errno;
        }
    }
    return -EAGAIN; /* other code removes it as fast as we make it */
}

int agent_make_dirs(int root, const char *path, mode_t mode, bool *ret_made)
{
    char name[FILES_NAME_MAX + 1];
    bool made = false;
    int dir = agent_open(root, "", O_PATH | O_DIRECTORY, false);

    while (dir >= 0 && path[0] != '\0') {
        size_t n = strcspn(path, "/");
        memcpy(name, path, n); /* checked: no component is longer */
        name[n] = '\0';
        path += n + (path[n] == '/' ? 1 : 0);
        int next = enter(dir, name, path[0] == '\0' ? mode : 0755, &made);
        close(dir);
        dir = next;
    }
    if (dir >= 0) {
        *ret_made = made;
    }
    return dir;
}

int agent_file_begin(struct agent_file *f, int dir)
{
    char random[17];

    f->dir = dir;
    f->fd = -1;
    rand_hex(random, sizeof(random));
    (void)str_format(f->temp, sizeof(f->temp), ".husk-%s", random);
    f->fd = openat(dir, f->temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (f->fd < 0) {
        int saved = errno;
        fd_close(&f->dir);
        return -saved;
    }
    return 0;
}

void agent_file_drop(struct agent_file *f)
{
    if (f->fd >= 0) {
        (void)unlinkat(f->dir, f->temp, 0);
    }
    fd_close(&f->fd);
    fd_close(&f->dir);
}

int agent_file_finish(struct agent_file *f, const char *name, mode_t mode, const int64_t *mtime)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
                                {.tv_sec = mtime != NULL ? (time_t)*mtime : 0}};

    if (fchmod(f->fd, mode & 0777) < 0 || (mtime != NULL && futimens(f->fd, times) < 0) ||
        renameat(f->dir, f->temp, f->dir, name) < 0) {
        int saved = errno;
        agent_file_drop(f);
        return -saved;
    }
    fd_close(&f->fd);
    fd_close(&f->dir);
    return 0;
}
