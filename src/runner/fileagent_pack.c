/* SPDX-License-Identifier: Apache-2.0 */
/* Tar streams out of and into the workspace; see fileagent_impl.h and wire/tar.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "runner/fileagent_impl.h"
#include "wire/tar.h"

#define CLOSED_MAX ((size_t)4 << 20)
#define PAGE ((uint64_t)4096)
#define TIME_MAX ((int64_t)1 << 40) /* beyond any that archives can say */

static bool is_copy(const struct agent *a)
{
    return (a->req.flags & FILES_COPY) != 0;
}

/* ---- PACK ---- */

static int put_header(struct agent *a, const struct tar_entry *entry)
{
    AUTO_BUF struct buf header = BUF_INIT(TAR_HEADER_MAX);

    int r = tar_put_header(&header, entry);
    return r < 0 ? r : agent_write(a, header.data, header.len);
}

static int put_zeros(struct agent *a, uint64_t n)
{
    static const char zeros[TAR_BLOCK];

    while (n > 0) {
        size_t part = n < sizeof(zeros) ? (size_t)n : sizeof(zeros);
        int r = agent_write(a, zeros, part);
        if (r < 0) {
            return r;
        }
        n -= part;
    }
    return 0;
}

/* Exactly as many bytes as the header promised: a file that shrinks meanwhile is filled up with zeros. */
static int put_content(struct agent *a, int fd, uint64_t size)
{
    uint64_t left = size;

    while (left > 0) {
        char *to;
        size_t room;
        int r = agent_room(a, &to, &room);
        if (r < 0) {
            return r;
        }
        ssize_t n = read(fd, to, left < room ? (size_t)left : room);
        if (n < 0 && errno != EINTR) {
            return -errno;
        }
        if (n == 0) {
            break;
        }
        agent_wrote(a, n > 0 ? (size_t)n : 0);
        left -= n > 0 ? (uint64_t)n : 0;
    }
    return put_zeros(a, left + (-size % TAR_BLOCK));
}

static int open_file(const struct agent_walk *w, int dir, const char *name)
{
    const int flags = O_RDONLY | O_NONBLOCK | O_NOCTTY;
    mode_t was;

    int fd = agent_open(dir, name, flags, false);
    if (fd == -EACCES && w->forced) {
        fd = agent_open_forced(dir, name, flags, 0400, &was);
        if (fd >= 0) {
            agent_close_again(fd, was, 0400);
        }
    }
    return fd;
}

static int pack_file(struct agent_walk *w, struct tar_entry *entry, int dir, const char *name)
{
    struct agent *a = w->agent;
    AUTO_CLOSE int fd = open_file(w, dir, name);
    struct stat st;

    if (fd < 0) {
        bool renamed = fd == -ENOENT || fd == -ELOOP || fd == -EXDEV || fd == -ENXIO;
        return renamed ? 0 : agent_walk_gap(w, fd);
    }
    if (fstat(fd, &st) < 0) {
        return -errno;
    }
    if (!S_ISREG(st.st_mode)) {
        return 0;
    }
    entry->size = (uint64_t)st.st_size;
    uint64_t takes = (entry->size + PAGE - 1) / PAGE * PAGE; /* where it is unpacked */
    if (takes > w->room) {
        return agent_walk_gap(w, -EFBIG);
    }
    w->room -= takes;
    int r = put_header(a, entry);
    return r < 0 ? r : put_content(a, fd, entry->size);
}

static int pack_link(struct agent_walk *w, struct tar_entry entry, int dir, const char *name)
{
    char target[FILES_PATH_MAX + 1];
    ssize_t n = readlinkat(dir, name, target, sizeof(target));

    if (n < 0) {
        return errno == ENOENT || errno == EINVAL ? 0 : -errno;
    }
    if ((size_t)n == sizeof(target)) {
        return agent_walk_gap(w, -ENAMETOOLONG);
    }
    target[n] = '\0';
    entry.link = target;
    return put_header(w->agent, &entry);
}

static int pack_entry(struct agent_walk *w, int dir, const char *name, const struct stat *st)
{
    struct tar_entry entry = {.name = w->path,
                              .link = "",
                              .mode = st->st_mode & 0777,
                              .mtime = MAX(-TIME_MAX, MIN(TIME_MAX, st->st_mtim.tv_sec))};

    switch (st->st_mode & S_IFMT) {
    case S_IFREG:
        entry.kind = TAR_FILE;
        return pack_file(w, &entry, dir, name);
    case S_IFDIR:
        entry.kind = TAR_DIRECTORY;
        return put_header(w->agent, &entry);
    case S_IFLNK:
        entry.kind = TAR_LINK;
        return pack_link(w, entry, dir, name);
    default:
        return 0; /* sockets and pipes mean nothing elsewhere */
    }
}

/*
 * A copy is bounded by the box's disk, which it has to fit into again. Holes count, and so does every name of a file with
 * several: a box cannot fill ours by what costs it nothing.
 */
static uint64_t room_for(const struct agent *a)
{
    struct statfs fs;

    if (!is_copy(a) || fstatfs(a->root, &fs) < 0) {
        return UINT64_MAX;
    }
    return (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize;
}

/* *ret_mode: of a workspace whose owner has closed it to itself. */
static int open_top(const struct agent *a, mode_t *ret_mode)
{
    char self[40];
    struct stat st;

    *ret_mode = AGENT_ENTER;
    if (is_copy(a) && fstat(a->root, &st) == 0 && (st.st_mode & AGENT_ENTER) != AGENT_ENTER) {
        *ret_mode = st.st_mode & 07777;
        (void)str_format(self, sizeof(self), "/proc/self/fd/%d", a->root);
        if (chmod(self, *ret_mode | AGENT_ENTER) < 0) {
            return -errno;
        }
    }
    return agent_open(a->root, a->path, O_RDONLY | O_DIRECTORY, (a->req.flags & FILES_FOLLOW) != 0);
}

static int pack_all(struct agent *a, int dir)
{
    AUTO_BUF struct buf end = BUF_INIT(TAR_HEADER_MAX);
    struct agent_walk w = {.agent = a,
                           .recursive = true,
                           .strict = !is_copy(a),
                           .forced = is_copy(a),
                           .left = FILES_ENTRIES_MAX,
                           .room = room_for(a),
                           .visit = pack_entry};

    int r = agent_walk(&w, dir);
    if (r < 0) {
        (void)str_copy(a->text, sizeof(a->text), w.path);
        return r;
    }
    a->done.more = w.more ? 1 : 0;
    r = tar_put_end(&end);
    if (r == 0) {
        r = agent_write(a, end.data, end.len);
    }
    return r < 0 ? r : agent_flush(a);
}

int agent_pack(struct agent *a)
{
    mode_t mode;
    int dir = open_top(a, &mode);

    if (dir < 0) {
        return dir;
    }
    AUTO_CLOSE int top = fcntl(dir, F_DUPFD_CLOEXEC, 0); /* the walk takes the other */
    int r = top < 0 ? -errno : pack_all(a, dir);
    if (top < 0) {
        close(dir);
    } else {
        agent_close_again(top, mode, AGENT_ENTER);
    }
    return r;
}

/* ---- UNPACK ---- */

struct unpacking {
    struct agent *agent;
    int top;
    struct agent_file file; /* that is being written */
    bool has_file;
    bool skips;                    /* its data: it could not be made */
    char name[FILES_PATH_MAX + 1]; /* its own, */
    uint32_t mode;
    int64_t mtime;
    struct buf
        closed; /* folders of a copy that their owner may not write: "0555path", a NUL after each */
};

/* A link takes the place of whatever had its name, except directories. */
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

/* Innermost first: those that follow could not be reached any more. */
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
 * A copy is better than none without the one file that does not fit. A shortage is no reason: what is left out now would be
 * missing in the next copy, too.
 */
static int miss(struct unpacking *u, int r)
{
    if (r >= 0 || !is_copy(u->agent) || agent_is_shortage(r)) {
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
    if (is_copy(a) && (entry->mode & 0700) != 0700 &&
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
    (void)str_copy(a->text, sizeof(a->text), entry->name); /* whatever fails now is about it */
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

static int on_data(void *user, const char *data, size_t n)
{
    struct unpacking *u = user;

    return u->skips ? 0 : miss(u, fd_write_all(u->file.fd, data, n));
}

static int on_end(void *user)
{
    struct unpacking *u = user;

    if (u->skips) {
        return 0;
    }
    u->has_file = false;
    int r = agent_file_finish(&u->file, u->name, u->mode, &u->mtime);
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
    reader.any_link = is_copy(a);
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
        (void)str_format(a->text, sizeof(a->text), "%.2000s: %s", reader.name, reader.problem);
    }
    tar_reader_release(&reader);
    close(u.top);
    return r;
}
