/* SPDX-License-Identifier: Apache-2.0 */
/* Tar streams out of the workspace; see fileagent_impl.h and wire/tar.h. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "runner/fileagent_impl.h"
#include "wire/tar.h"

#define PAGE ((uint64_t)4096)
#define TIME_MAX ((int64_t)1 << 40) /* beyond any that archives can hold */

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

/*
 * Exactly as many bytes as the header promised: a file that shrinks meanwhile is padded with zeros.
 */
static int put_content(struct agent *a, int fd, uint64_t size)
{
    uint64_t left = size;
    int r = agent_write_file(a, fd, 0, &left);

    return r < 0 ? r : put_zeros(a, left + (-size % TAR_BLOCK));
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

static int pack_file(struct agent_walk *w, struct tar_entry *entry, int dir, const char *name,
                     const struct stat *seen)
{
    struct agent *a = w->agent;
    struct stat st;

    const char *before = agent_names_find(&w->names, seen);
    if (before != NULL) {
        entry->kind = TAR_HARD_LINK;
        entry->link = before;
        return put_header(a, entry);
    }
    AUTO_CLOSE int fd = open_file(w, dir, name);
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
    if (r == 0) {
        r = put_content(a, fd, entry->size);
    }
    if (r == 0 && agent_is_copy(a)) {
        agent_names_add(&w->names, &st, w->path);
    }
    return r;
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
        return pack_file(w, &entry, dir, name, st);
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
 * A copy is bounded by the box's disk, since it must fit there again. Holes count: they cost a box
 * nothing, and must not fill the host's disk.
 */
static uint64_t room_for(const struct agent *a)
{
    struct statfs fs;

    if (!agent_is_copy(a) || fstatfs(a->root, &fs) < 0) {
        return UINT64_MAX;
    }
    return (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize;
}

/* *ret_mode: the old mode of a workspace that shut its owner out. */
static int open_top(const struct agent *a, mode_t *ret_mode)
{
    char self[40];
    struct stat st;

    *ret_mode = AGENT_ENTER;
    if (agent_is_copy(a) && fstat(a->root, &st) == 0 && (st.st_mode & AGENT_ENTER) != AGENT_ENTER) {
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
                           .strict = !agent_is_copy(a),
                           .forced = agent_is_copy(a),
                           .left = FILES_ENTRIES_MAX,
                           .room = room_for(a),
                           .visit = pack_entry};

    int r = agent_walk(&w, dir);
    agent_names_release(&w.names);
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
