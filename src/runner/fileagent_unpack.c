/* SPDX-License-Identifier: Apache-2.0 */
/* Tar streams into the workspace; see fileagent_impl.h and wire/tar.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "runner/fileagent_impl.h"
#include "wire/tar.h"

#define CLOSED_MAX ((size_t)4 << 20)
#define PAGE ((size_t)4096)

struct unpacking {
    struct agent *agent;
    int top;
    struct agent_file file; /* that is being written */
    bool has_file;
    bool skips;                    /* its data: it could not be made */
    char name[FILES_PATH_MAX + 1]; /* its own, */
    uint32_t mode;
    int64_t mtime;
    /* folders of a copy that their owner may not write: "0555path", a NUL after each */
    struct buf closed;
};

/* A link replaces whatever has its name, except a directory. */
static int place_link(struct unpacking *u, const struct tar_entry *entry)
{
    const char *name;
    AUTO_CLOSE int dir = agent_open_parent(u->top, entry->name, true, &name);

    if (dir < 0) {
        return dir;
    }
    if (unlinkat(dir, name, 0) < 0 && errno != ENOENT) {
        return -errno;
    }
    if (entry->kind == TAR_LINK) {
        return symlinkat(entry->link, dir, name) < 0 ? -errno : 0;
    }
    const char *from_name;
    AUTO_CLOSE int from = agent_open_parent(u->top, entry->link, false, &from_name);
    if (from < 0) {
        return from;
    }
    return linkat(from, from_name, dir, name, 0) < 0 ? -errno : 0; /* 0: a link is not followed */
}

static int begin_file(struct unpacking *u, const struct tar_entry *entry)
{
    const char *name;
    int dir = agent_open_parent(u->top, entry->name, true, &name);

    if (dir < 0) {
        return dir;
    }
    int r = agent_file_begin(&u->file, dir);
    if (r < 0) {
        return r;
    }
    u->has_file = true;
    u->mode = entry->mode;
    u->mtime = entry->mtime;
    return str_copy(u->name, sizeof(u->name), name);
}

/* Innermost first: a closed parent would make those below unreachable. */
static void close_folders(struct unpacking *u)
{
    while (u->closed.len > 0) {
        size_t end = u->closed.len - 1;
        const char *before = memrchr(u->closed.data, '\0', end);
        const char *text = before != NULL ? before + 1 : u->closed.data;
        char mode[5] = {text[0], text[1], text[2], text[3], '\0'};

        AUTO_CLOSE int dir = agent_open(u->top, text + 4, O_RDONLY | O_DIRECTORY, false);
        if (dir < 0 || fchmod(dir, (mode_t)strtoul(mode, NULL, 8)) < 0) {
            u->agent->done.more = 1;
        }
        u->closed.len = (size_t)(text - u->closed.data);
    }
}

/*
 * A copy without the one file that does not fit is better than none. A shortage does not count: a
 * file that is left out now would be missing in the next copy, too.
 */
static int miss(struct unpacking *u, int r)
{
    if (r >= 0 || !agent_is_copy(u->agent) || agent_is_shortage(r)) {
        return r;
    }
    if (u->has_file) {
        agent_file_drop(&u->file);
        u->has_file = false;
    }
    u->skips = true;
    u->agent->done.more = 1;
    return 0;
}

static int make_folder(struct unpacking *u, const struct tar_entry *entry)
{
    struct agent *a = u->agent;
    bool made;

    /* Always usable by its owner: entries below it may follow. */
    int dir = agent_make_dirs(u->top, entry->name, entry->mode | 0700, &made);
    if (dir < 0) {
        return dir;
    }
    close(dir);
    a->done.count++;
    if (agent_is_copy(a) && (entry->mode & 0700) != 0700 &&
        (buf_printf(&u->closed, "%04o%s", (unsigned)entry->mode, entry->name) < 0 ||
         buf_add(&u->closed, "", 1) < 0)) {
        a->done.more = 1; /* it stays open */
        u->closed.len = 0;
    }
    return 0;
}

static int on_entry(void *user, const struct tar_entry *entry)
{
    struct unpacking *u = user;
    struct agent *a = u->agent;
    int r;

    u->skips = false;
    (void)str_copy(a->text, sizeof(a->text), entry->name); /* a failure from here on is about it */
    if (a->done.count >= MIN(a->req.length, FILES_ENTRIES_MAX)) {
        return -E2BIG;
    }
    switch (entry->kind) {
    case TAR_DIRECTORY:
        return miss(u, make_folder(u, entry));
    case TAR_FILE:
        return miss(u, begin_file(u, entry)); /* counts when it is complete */
    default:
        r = place_link(u, entry);
        a->done.count += r == 0 ? 1 : 0;
        return miss(u, r);
    }
}

static bool is_zero(const char *data, size_t n)
{
    return data[0] == '\0' && memcmp(data, data + 1, n - 1) == 0;
}

/* How many bytes from here on are pages of zeros, or of something else. */
static size_t alike(const char *data, size_t n, bool *ret_zero)
{
    size_t len = MIN(n, PAGE);

    *ret_zero = is_zero(data, len);
    while (len < n && is_zero(data + len, MIN(n - len, PAGE)) == *ret_zero) {
        len += MIN(n - len, PAGE);
    }
    return len;
}

/*
 * Zeros of a copy become holes, as most of them were: a restored file takes no more space than the
 * original. end_file() makes a hole at the end.
 */
static int write_copy(int fd, const char *data, size_t n)
{
    int r = 0;

    for (size_t at = 0; at < n && r == 0;) {
        bool zero;
        size_t len = alike(data + at, n - at, &zero);
        if (!zero) {
            r = fd_write_all(fd, data + at, len);
        } else if (lseek(fd, (off_t)len, SEEK_CUR) < 0) {
            r = -errno;
        }
        at += len;
    }
    return r;
}

static int end_file(struct unpacking *u)
{
    off_t size = lseek(u->file.fd, 0, SEEK_CUR);

    if (agent_is_copy(u->agent) && (size < 0 || ftruncate(u->file.fd, size) < 0)) {
        int r = -errno;
        agent_file_drop(&u->file);
        return r;
    }
    return agent_file_finish(&u->file, u->name, u->mode, &u->mtime);
}

static int on_data(void *user, const char *data, size_t n)
{
    struct unpacking *u = user;

    if (u->skips) {
        return 0;
    }
    return miss(u, agent_is_copy(u->agent) ? write_copy(u->file.fd, data, n)
                                           : fd_write_all(u->file.fd, data, n));
}

static int on_end(void *user)
{
    struct unpacking *u = user;

    if (u->skips) {
        return 0;
    }
    u->has_file = false;
    int r = end_file(u);
    u->agent->done.count += r == 0 ? 1 : 0;
    return miss(u, r);
}

static int unpack_stream(struct agent *a, struct tar_reader *reader)
{
    for (;;) {
        ssize_t n = agent_read(a);
        if (n < 0) {
            return (int)n;
        }
        int r = n > 0 ? tar_reader_feed(reader, a->body, (size_t)n) : tar_reader_finish(reader);
        if (r < 0 || n == 0) {
            return r;
        }
    }
}

int agent_unpack(struct agent *a)
{
    static const struct tar_events events = {.entry = on_entry, .data = on_data, .end = on_end};
    struct unpacking u = {.agent = a, .closed = BUF_INIT(CLOSED_MAX)};
    struct tar_reader reader;
    bool made;

    u.top = agent_make_dirs(a->root, a->path, 0755, &made);
    if (u.top < 0) {
        return u.top;
    }
    tar_reader_init(&reader, &events, &u);
    reader.any_link = agent_is_copy(a);
    int r = unpack_stream(a, &reader);
    if (r == 0) {
        close_folders(&u);
    }
    buf_release(&u.closed);
    if (u.has_file) {
        agent_file_drop(&u.file);
    }
    if (r == 0) {
        a->text[0] = '\0';
    } else if (reader.problem != NULL) {
        const char *colon = reader.name[0] != '\0' ? ": " : "";
        (void)str_format(a->text, sizeof(a->text), "%.2000s%s%s", reader.name, colon,
                         reader.problem);
    }
    tar_reader_release(&reader);
    close(u.top);
    return r;
}
