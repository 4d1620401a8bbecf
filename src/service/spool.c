/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output of executions that somebody may ask about later, on disk as it comes: DATA/spool/ID.out, ID.err, and displays in ID.rich.
 *
 * Should this process be killed, its successor begins where this one stopped. The files go when the result is recorded.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "service/impl.h"

static const char *const suffixes[] = {".out", ".err", ".rich"};

enum { OUT, ERR, RICH };

static int path_of(const struct service *svc, const char *id, size_t which, char *ret, size_t size)
{
    return str_format(ret, size, "%s/spool/%s%s", svc->config->data, id, suffixes[which]);
}

static void add(struct execution *x, size_t which, const char *data, size_t n)
{
    char path[4400];

    if (!x->stored || x->spool_failed) {
        return;
    }
    if (x->spool[which] == 0) { /* descriptor 0 is taken, so 0 means none */
        int fd = path_of(x->svc, x->id, which, path, sizeof(path)) < 0
                     ? -1
                     : open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        x->spool[which] = fd;
        x->spooled = true;
    }
    if (x->spool[which] < 0 || fd_write_all(x->spool[which], data, n) < 0) {
        x->spool_failed =
            true; /* the run goes on; only a restart of the server would lose something */
        log_warn("output_not_spooled", "execution=%s", x->id);
    }
}

void spool_add(struct execution *x, enum husk_stream stream, const char *data, size_t n)
{
    add(x, stream == HUSK_STDOUT ? OUT : ERR, data, n);
}

void spool_add_display(struct execution *x, const char *frame, size_t n)
{
    uint32_t len = (uint32_t)n;

    add(x, RICH, (const char *)&len, sizeof(len));
    add(x, RICH, frame, n);
}

void spool_read(struct service *svc, const char *id, struct buf *out, struct buf *err,
                struct buf *displays)
{
    struct buf *to[] = {out, err, displays};
    char path[4400];
    char chunk[16384];

    for (size_t i = 0; i < ARRAY_LEN(to); i++) {
        AUTO_CLOSE int fd =
            path_of(svc, id, i, path, sizeof(path)) < 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n;
        while (fd >= 0 && to[i] != NULL && (n = read(fd, chunk, sizeof(chunk))) > 0) {
            (void)buf_add(to[i], chunk, MIN((size_t)n, to[i]->max - to[i]->len));
        }
    }
}

void spool_remove(struct execution *x)
{
    char path[4400];

    for (size_t i = 0; i < ARRAY_LEN(x->spool); i++) {
        if (x->spool[i] > 0) {
            fd_close(&x->spool[i]);
            x->spool[i] = 0;
        }
        if ((x->kept != NULL || x->spooled) && path_of(x->svc, x->id, i, path, sizeof(path)) == 0 &&
            unlink(path) < 0 && errno != ENOENT) {
            log_warn("spool_not_removed", "execution=%s", x->id);
        }
    }
}

void spool_sweep(struct service *svc)
{
    char path[4400];

    DIR *dir =
        str_format(path, sizeof(path), "%s/spool", svc->config->data) < 0 ? NULL : opendir(path);
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
