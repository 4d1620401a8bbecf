/* SPDX-License-Identifier: Apache-2.0 */
/* Files that the user names; see hostfile.h. */
#include "cli/common/hostfile.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"

#define STEP ((size_t)64 << 10)

static int too_large(const char *what, size_t max, struct err *e)
{
    if (max >= (size_t)1 << 20) {
        return err_set(e, ERR_INVALID, "%s is larger than %zu MiB", what, max >> 20);
    }
    return err_set(e, ERR_INVALID, "%s is larger than %zu bytes", what, max);
}

int hostfile_read_fd(int fd, const char *what, struct buf *ret, struct err *e)
{
    for (;;) {
        size_t room = MIN(STEP, ret->max - ret->len);
        char extra;

        /* At the maximum, one more byte distinguishes "exactly full" from "too large". */
        if (room > 0 && buf_reserve(ret, room) < 0) {
            return err_sys(e, ENOMEM, "cannot read %s", what);
        }
        ssize_t n = room > 0 ? read(fd, ret->data + ret->len, room) : read(fd, &extra, 1);
        if (n < 0 && errno == EAGAIN) { /* another program set O_NONBLOCK on the shared file */
            struct pollfd p = {.fd = fd, .events = POLLIN};
            (void)poll(&p, 1, -1);
            continue;
        }
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return err_sys(e, errno, "cannot read %s", what);
        }
        if (n == 0) {
            return 0;
        }
        if (room == 0) {
            return too_large(what, ret->max, e);
        }
        ret->len += (size_t)n;
        ret->data[ret->len] = '\0';
    }
}

int hostfile_read(const char *path, struct buf *ret, struct err *e)
{
    AUTO_CLOSE int fd = -1;

    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        int why = errno;

        err_sys(e, why, "cannot open %s", path);
        if (why == ENOENT || why == ENOTDIR) { /* the home of service accounts is /dev/null */
            e->code = ERR_NOT_FOUND;
        }
        return -1;
    }
    return hostfile_read_fd(fd, path, ret, e);
}

int hostfile_read_script(const char *path, struct buf *ret, struct err *e)
{
    static const char bom[] = "\xef\xbb\xbf";

    if (hostfile_read(path, ret, e) < 0) {
        return -1;
    }
    if (ret->len >= 3 && memcmp(ret->data, bom, 3) == 0) {
        buf_consume(ret, 3);
    }
    return 0;
}

int hostfile_check_target(const char *path, struct err *e)
{
    char dir[PATH_MAX];
    struct stat st;

    if (str_copy(dir, sizeof(dir), path) < 0) {
        return err_set(e, ERR_INVALID, "the path of the output file is too long: %s", path);
    }
    bool exists = stat(path, &st) == 0;
    if (exists && S_ISDIR(st.st_mode)) {
        return err_set(e, ERR_INVALID, "%s is a directory", path);
    }
    if (exists && access(path, W_OK) < 0) {
        return err_sys(e, errno, "cannot write %s", path);
    }
    const char *parent = dirname(dir);
    if (!exists && access(parent, W_OK | X_OK) < 0) {
        return err_sys(e, errno, "cannot write to directory %s", parent);
    }
    return 0;
}

int hostfile_write(const char *path, const char *data, size_t n, struct err *e)
{
    AUTO_CLOSE int fd = -1;

    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666);
    if (fd < 0) {
        return err_sys(e, errno, "cannot open %s", path);
    }
    int r = fd_write_all(fd, data, n);
    return r < 0 ? err_sys(e, -r, "cannot write %s", path) : 0;
}
