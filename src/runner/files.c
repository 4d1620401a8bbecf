/* SPDX-License-Identifier: Apache-2.0 */
/* Files in and out of a run; see files.h. */
#include "runner/files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/dirs.h"
#include "base/fd.h"
#include "base/str.h"
#include "runner/control.h"

#define NAME_SIZE 1024
#define FILE_MAX (FRAME_FROM_BOX_MAX - 4096)

int files_put(const struct frame_field *put, struct err *e)
{
    AUTO_CLOSE int fd = -1;
    char name[NAME_SIZE];
    size_t n = strnlen(put->data, put->len);

    if (n == 0 || n == put->len || n >= sizeof(name)) {
        return err_set(e, ERR_INVALID, "a file to put has no usable name");
    }
    memcpy(name, put->data, n + 1);
    (void)dirs_make_parents(name, 0755); /* if it fails, so does open() */
    fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0) {
        return err_sys(e, errno, "put file %s", name);
    }
    (void)fchmod(fd, 0755); /* readable and, for programs, executable; only this box sees it */
    int r = fd_write_all(fd, put->data + n + 1, put->len - n - 1);
    if (r < 0) {
        return err_sys(e, -r, "put file %s", name);
    }
    return 0;
}

static int read_whole(const char *name, struct buf *b)
{
    AUTO_CLOSE int fd = -1;
    struct stat st;
    char chunk[65536];

    /* O_NONBLOCK: a FIFO must not block the result. */
    fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0) {
        return -errno;
    }
    if (!S_ISREG(st.st_mode)) {
        return -EINVAL;
    }
    for (;;) {
        ssize_t n = read(fd, chunk, sizeof(chunk));
        if (n <= 0) {
            return n < 0 ? -errno : 0;
        }
        int r = buf_add(b, chunk, (size_t)n);
        if (r < 0) {
            return r;
        }
    }
}

int files_send(int control, const struct frame_head *run, const struct frame_field *get)
{
    AUTO_BUF struct buf content = BUF_INIT(FILE_MAX);
    AUTO_BUF struct buf frame = BUF_INIT(FRAME_FROM_BOX_MAX + 4096);
    char name[NAME_SIZE];

    if (get->len == 0 || get->len >= sizeof(name)) {
        return -EINVAL;
    }
    memcpy(name, get->data, get->len);
    name[get->len] = '\0';

    int r = read_whole(name, &content);
    if (frame_begin(&frame, FRAME_FILE, run->token) < 0 ||
        frame_add_str(&frame, KEY_NAME, name) < 0) {
        return -ENOMEM;
    }
    if (r < 0) {
        const char *why = r == -EMSGSIZE ? "larger than 24 MiB" : strerrordesc_np(-r);
        r = frame_add_str(&frame, KEY_ERROR_MESSAGE, why != NULL ? why : "cannot be read");
    } else {
        r = frame_add(&frame, KEY_DATA, content.data != NULL ? content.data : "", content.len);
    }
    if (r < 0 || frame_end(&frame) < 0) {
        return -ENOMEM;
    }
    return control_send(control, &frame);
}
