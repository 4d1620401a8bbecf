/* SPDX-License-Identifier: Apache-2.0 */
/* The lock of the data directory; see lock.h. */
#include "store/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"

#define PID_TEXT 32

/* The pid is for people: empty when the holder has not written it yet. */
static int refuse(int fd, const char *dir, struct err *e)
{
    char pid[PID_TEXT] = "";
    ssize_t n = pread(fd, pid, sizeof(pid) - 1, 0);

    pid[n > 0 ? (size_t)n : 0] = '\0';
    pid[strspn(pid, "0123456789")] = '\0';
    return err_set(e, ERR_CONFLICT, "%s is in use by another daemon (pid %s)", dir,
                   pid[0] != '\0' ? pid : "unknown");
}

int lock_take(const char *dir, struct err *e)
{
    AUTO_CLOSE int dir_fd = -1;
    AUTO_CLOSE int fd = -1;
    char pid[PID_TEXT];

    dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0) {
        return err_sys(e, errno, "data directory %s", dir);
    }
    fd = openat(dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return err_disk(e, errno, "%s/lock", dir);
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        return errno == EWOULDBLOCK ? refuse(fd, dir, e) : err_sys(e, errno, "%s/lock", dir);
    }
    int rc = str_format(pid, sizeof(pid), "%d\n", (int)getpid());
    if (rc == 0) {
        rc = ftruncate(fd, 0) == 0 ? fd_write_all(fd, pid, strlen(pid)) : -errno;
    }
    if (rc != 0 && rc != -ENOSPC) { /* on a full disk it is a lock all the same, without a name */
        return err_disk(e, -rc, "%s/lock", dir);
    }
    return take_fd(&fd);
}
