/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output of executions that clients can ask about later, on disk as it comes: DATA/spool/ID.out,
 * ID.err, and displays in ID.rich.
 *
 * Should this process be killed, its successor begins where this one stopped. The files go when
 * the result is recorded.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/log.h"
#include "service/service_impl.h"

static const char *const suffixes[] = {".out", ".err", ".rich"};

enum { OUT, ERR, RICH };

static void path_of(const struct service *svc, const char *id, size_t which,
                    char ret[DATA_PATH_SIZE])
{
    data_file_path(svc->config, DATA_SPOOL, id, suffixes[which], ret);
}

/*
 * -1 when it cannot be made; the next output tries again. Descriptor 0 is taken, so 0 means none.
 */
static int open_file(struct execution *x, size_t which)
{
    char path[DATA_PATH_SIZE];

    if (x->spool[which] == 0) {
        path_of(x->svc, x->id, which, path);
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | (which == RICH ? O_APPEND : 0), 0600);

        x->spool[which] = fd > 0 ? fd : 0;
        x->spooled = true;
    }
    return x->spool[which] > 0 ? x->spool[which] : -1;
}

/* The run goes on; only a restart of the server would lose something. */
static void note_failure(struct execution *x)
{
    if (!x->spool_failed) {
        log_warn("output_not_spooled", "execution=%s: %s", x->id, strerrordesc_np(errno));
    }
    x->spool_failed = true;
}

/*
 * Writes what the file lacks. What a full disk did not take is in memory still, and comes when
 * there is room.
 */
static bool catch_up(struct execution *x, size_t which, const struct buf *text)
{
    int fd = x->spool_at[which] < text->len ? open_file(x, which) : -1;

    while (fd >= 0 && x->spool_at[which] < text->len) {
        size_t at = x->spool_at[which];
        ssize_t n = pwrite(fd, text->data + at, text->len - at, (off_t)at);

        if (n > 0) {
            x->spool_at[which] += (size_t)n;
        } else if (n == 0 || errno != EINTR) {
            break;
        }
    }
    return x->spool_at[which] == text->len;
}

static bool is_empty(int pipe)
{
    int n = 0;

    return ioctl(pipe, FIONREAD, &n) == 0 && n == 0;
}

/*
 * From the pipe into the file without a stop in our memory: what is in neither would be lost with
 * us. Where that cannot be done (nothing keeps this output, more of it than is kept, the disk does
 * not take it) it is read, and comes later if it can.
 */
ssize_t spool_take(struct execution *x, enum husk_stream stream, int pipe, char *buf, size_t size)
{
    size_t which = stream == HUSK_STDOUT ? OUT : ERR;
    struct buf *text = stream == HUSK_STDOUT ? &x->out : &x->err;

    quota_prepare_output(x, text, size);
    size_t room = text->max - text->len;
    off_t at = (off_t)text->len;

    bool keeps =
        x->row == ROW_STORED && room > 0 && x->spool_at[which] == text->len && !is_empty(pipe);
    int fd = keeps ? open_file(x, which) : -1;
    ssize_t n = fd < 0 ? -1 : splice(pipe, NULL, fd, &at, MIN(size, room), SPLICE_F_NONBLOCK);
    if (n < 0) {
        return read(pipe, buf, size);
    }
    FAULT_POINT("spool.written");
    x->spool_at[which] += (size_t)n;
    ssize_t got = pread(fd, buf, (size_t)n, (off_t)text->len);
    if (got != n) {
        x->spool_at[which] = SIZE_MAX; /* nothing can follow a part */
        note_failure(x);
    }
    return got;
}

void spool_output(struct execution *x)
{
    if (x->row != ROW_STORED) {
        return;
    }
    if (catch_up(x, OUT, &x->out) && catch_up(x, ERR, &x->err)) {
        x->spool_failed = false;
    } else {
        note_failure(x);
    }
}

void spool_retry(struct service *svc)
{
    for (struct execution *x = svc->executions; x != NULL; x = execution_next(x)) {
        if (x->spool_failed) {
            spool_output(x);
        }
    }
}

void spool_add_display(struct execution *x, const char *frame, size_t n)
{
    uint32_t len = (uint32_t)n;

    if (x->row != ROW_STORED || x->spool_cut) {
        return;
    }
    int fd = quota_take_display(x, n + sizeof(len)) ? open_file(x, RICH) : -1;
    if (fd < 0 || fd_write_all(fd, &len, sizeof(len)) < 0 || fd_write_all(fd, frame, n) < 0) {
        x->spool_cut = true; /* nothing can follow a part of one */
        log_warn("display_not_spooled", "execution=%s", x->id);
    }
}

void spool_read(struct service *svc, const char *id, struct buf *out, struct buf *err,
                struct buf *displays)
{
    struct buf *to[] = {out, err, displays};
    char path[DATA_PATH_SIZE];
    char chunk[16384];

    for (size_t i = 0; i < ARRAY_LEN(to); i++) {
        path_of(svc, id, i, path);
        AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n;
        while (fd >= 0 && to[i] != NULL && (n = read(fd, chunk, sizeof(chunk))) > 0) {
            (void)buf_add(to[i], chunk, MIN((size_t)n, to[i]->max - to[i]->len));
        }
    }
}

void spool_remove(struct execution *x)
{
    char path[DATA_PATH_SIZE];

    x->spool_failed = false; /* nothing more is to be written */
    for (size_t i = 0; i < ARRAY_LEN(x->spool); i++) {
        if (x->spool[i] > 0) {
            fd_close(&x->spool[i]);
            x->spool[i] = 0;
        }
        path_of(x->svc, x->id, i, path);
        if ((x->kept != NULL || x->spooled) && unlink(path) < 0 && errno != ENOENT) {
            log_warn("spool_not_removed", "execution=%s", x->id);
        }
    }
}

void spool_sweep(struct service *svc)
{
    char path[DATA_PATH_SIZE];

    data_folder_path(svc->config, DATA_SPOOL, path);
    DIR *dir = opendir(path);
    if (dir == NULL) {
        return;
    }
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        const char *dot = strrchr(entry->d_name, '.');
        size_t n = dot != NULL ? (size_t)(dot - entry->d_name) : 0;
        const struct execution *x = table_execution(svc, entry->d_name, n);
        if (n > 1 && x == NULL && unlinkat(dirfd(dir), entry->d_name, 0) < 0) {
            log_warn("spool_not_removed", "file=%s", entry->d_name);
        }
    }
    closedir(dir);
}
