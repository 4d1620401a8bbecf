/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directories of the file worker: walked, listed, deleted; see fileagent_impl.h.
 *
 * Nothing here recurses, and few descriptors are open at a time: hostile code makes trees as deep
 * as it likes.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/rand.h"
#include "base/str.h"
#include "runner/fileagent_impl.h"

/*
 * gcc 12's analyzer loses sight of which levels are open; both walks close theirs at their one end.
 */
#ifndef __clang__
#    pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#    pragma GCC diagnostic ignored "-Wanalyzer-double-free"
#endif

#define DELETE_DEPTH 8                     /* fits below the smallest limit on descriptors */
#define DELETE_MAX (4 * FILES_ENTRIES_MAX) /* ends a race against code that makes files for ever */

/* Takes dir. */
static DIR *open_stream(int dir)
{
    DIR *d = fdopendir(dir);

    if (d == NULL) {
        fd_close(&dir);
    }
    return d;
}

/* The next entry that is not the directory itself or its parent. NULL at the end, or with errno. */
static const char *next_name(DIR *d)
{
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(d);
        if (entry == NULL) {
            return NULL;
        }
        if (!str_eq(entry->d_name, ".") && !str_eq(entry->d_name, "..")) {
            return entry->d_name;
        }
    }
}

/* ---- walking ---- */

struct level {
    DIR *dir;
    size_t path_len; /* of the directory's path and the slash behind it */
    bool forced;
    mode_t mode; /* that it had then */
};

static void leave(struct level *l)
{
    if (l->forced) {
        agent_close_again(dirfd(l->dir), l->mode, AGENT_ENTER);
    }
    closedir(l->dir);
}

/*
 * An entry that is gone, or not a directory any more, was renamed while we looked. EXDEV: it was
 * moved after the kernel found it and before it checked that it is still beneath.
 */
static bool is_race(int r)
{
    return r == -ENOENT || r == -ENOTDIR || r == -ELOOP || r == -EXDEV;
}

bool agent_is_shortage(int r)
{
    return r == -ENOMEM || r == -ENFILE || r == -EMFILE || r == -EIO;
}

int agent_walk_gap(struct agent_walk *w, int r)
{
    if (w->strict || (w->forced && agent_is_shortage(r))) {
        return r;
    }
    w->more = true;
    return 0;
}

/* Visits one entry. 1: it is a directory to descend into. */
static int visit(struct agent_walk *w, const struct level *in, const char *name)
{
    struct stat st;

    if (fstatat(dirfd(in->dir), name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return is_race(-errno) ? 0 : agent_walk_gap(w, -errno);
    }
    if (str_copy(w->path + in->path_len, sizeof(w->path) - in->path_len, name) < 0) {
        w->path[in->path_len] = '\0';
        return agent_walk_gap(w, -ENAMETOOLONG);
    }
    if (w->left == 0) {
        w->more = true;
        return w->strict ? -E2BIG : -ENODATA;
    }
    w->left--;
    int r = w->visit(w, dirfd(in->dir), name, &st);
    return r < 0 ? r : w->recursive && S_ISDIR(st.st_mode) ? 1 : 0;
}

/* Enters the directory that w->path names. 1 if it did. */
static int descend(struct agent_walk *w, const struct level *in, struct level *into, size_t depth)
{
    size_t len = strlen(w->path);

    if (depth == FILES_DEPTH_MAX) {
        return agent_walk_gap(w, -E2BIG);
    }
    if (len + 1 >= sizeof(w->path)) {
        return agent_walk_gap(w, -ENAMETOOLONG);
    }
    const char *name = w->path + in->path_len;
    *into = (struct level){.path_len = len + 1, .forced = w->forced};
    int fd = w->forced ? agent_open_forced(dirfd(in->dir), name, O_RDONLY | O_DIRECTORY,
                                           AGENT_ENTER, &into->mode)
                       : agent_open(dirfd(in->dir), name, O_RDONLY | O_DIRECTORY, false);
    if (fd < 0) {
        return is_race(fd) ? 0 : agent_walk_gap(w, fd);
    }
    into->dir = open_stream(fd);
    if (into->dir == NULL) {
        return -ENOMEM;
    }
    w->path[len] = '/';
    w->path[len + 1] = '\0';
    return 1;
}

static int walk_levels(struct agent_walk *w, struct level *levels, size_t *depth)
{
    while (*depth > 0) {
        struct level *top = &levels[*depth - 1];
        const char *name = next_name(top->dir);
        if (name == NULL) {
            int r = errno != 0 ? agent_walk_gap(w, -errno) : 0;
            if (r < 0) {
                return r;
            }
            leave(top);
            --*depth;
            continue;
        }
        int r = visit(w, top, name);
        if (r > 0) {
            r = descend(w, top, &levels[*depth], *depth);
            *depth += r > 0 ? 1 : 0;
        }
        if (r >= 0) {
            r = agent_tick(w->agent);
        }
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

int agent_walk(struct agent_walk *w, int dir)
{
    struct level levels[FILES_DEPTH_MAX + 1];
    size_t depth = 1;

    w->path[0] = '\0';
    levels[0] = (struct level){.dir = open_stream(dir)};
    if (levels[0].dir == NULL) {
        return -ENOMEM;
    }
    int r = walk_levels(w, levels, &depth);
    while (depth > 0) {
        leave(&levels[--depth]);
    }
    return r == -ENODATA ? 0 : r;
}

/* ---- LIST ---- */

static int list_entry(struct agent_walk *w, int dir, const char *name, const struct stat *st)
{
    struct agent *a = w->agent;
    struct files_info info = agent_info(st);
    char target[FILES_PATH_MAX + 1];

    agent_target(dir, name, st, target);
    int r = a->out.len > 0 ? files_msg_put_entry(&a->out, &info, w->path, target) : -EMSGSIZE;
    if (r == -EMSGSIZE) {
        r = agent_send(a);
        if (r == 0) {
            r = files_msg_put(&a->out, FILES_ENTRIES, NULL, 0);
        }
        if (r == 0) {
            r = files_msg_put_entry(&a->out, &info, w->path, target);
        }
    }
    a->done.count += r == 0 ? 1 : 0;
    return r;
}

int agent_list(struct agent *a)
{
    struct agent_walk w = {.agent = a,
                           .recursive = (a->req.flags & FILES_RECURSIVE) != 0,
                           .left = MIN(a->req.length, FILES_ENTRIES_MAX),
                           .visit = list_entry};
    int dir =
        agent_open(a->root, a->path, O_RDONLY | O_DIRECTORY, (a->req.flags & FILES_FOLLOW) != 0);

    if (dir < 0) {
        return dir;
    }
    int r = agent_walk(&w, dir);
    a->done.more = w.more ? 1 : 0;
    return r < 0 ? r : agent_send(a);
}

/* ---- DELETE ---- */

struct doomed {
    DIR *dir;
    char name[FILES_NAME_MAX + 1]; /* in the directory one level up */
};

struct deletion {
    struct doomed levels[DELETE_DEPTH]; /* the first is the requested directory */
    size_t depth;
    uint64_t removed;
};

static int enter_doomed(struct deletion *d, int dir, const char *name)
{
    struct doomed *next = &d->levels[d->depth];
    int fd = agent_open(dir, name, O_RDONLY | O_DIRECTORY, false);

    if (fd < 0) {
        return fd;
    }
    (void)str_copy(next->name, sizeof(next->name), name);
    next->dir = open_stream(fd);
    if (next->dir == NULL) {
        return -ENOMEM;
    }
    d->depth++;
    return 0;
}

/* Too deep: the directory moves up, to be found again there. */
static int hoist(struct deletion *d, int dir, const char *name)
{
    char random[17];
    char temp[40];

    rand_hex(random, sizeof(random));
    (void)str_format(temp, sizeof(temp), ".husk-%s", random);
    return renameat(dir, name, dirfd(d->levels[0].dir), temp) < 0 ? -errno : 0;
}

static int remove_entry(struct deletion *d, const char *name)
{
    int dir = dirfd(d->levels[d->depth - 1].dir);
    int r = 0;

    if (unlinkat(dir, name, 0) < 0) {
        r = -errno;
    }
    if (r == -EISDIR && d->depth == DELETE_DEPTH) {
        r = hoist(d, dir, name);
        return r == -ENOENT ? 0 : r;
    }
    if (r == -EISDIR) {
        r = enter_doomed(d, dir, name);
    }
    return is_race(r) ? 0 : r;
}

/* The directory at the bottom looks empty. parent: of the topmost one. */
static int leave_doomed(struct deletion *d, int parent)
{
    struct doomed *last = &d->levels[d->depth - 1];
    int above = d->depth > 1 ? dirfd(d->levels[d->depth - 2].dir) : parent;

    if (unlinkat(above, last->name, AT_REMOVEDIR) < 0) {
        if (errno == ENOTEMPTY) {
            rewinddir(last->dir); /* something was hoisted, or made meanwhile */
            return 0;
        }
        if (!is_race(-errno)) {
            return -errno;
        }
    }
    closedir(last->dir);
    d->depth--;
    return 0;
}

static int delete_tree(struct agent *a, int parent, const char *name)
{
    struct deletion d = {.depth = 0};
    int r = enter_doomed(&d, parent, name);

    while (r == 0 && d.depth > 0) {
        const char *entry = next_name(d.levels[d.depth - 1].dir);
        r = entry != NULL ? remove_entry(&d, entry) : leave_doomed(&d, parent);
        if (r == 0 && ++d.removed > DELETE_MAX) {
            r = -E2BIG;
        }
        if (r == 0) {
            r = agent_tick(a);
        }
    }
    while (d.depth > 0) {
        closedir(d.levels[--d.depth].dir);
    }
    return r;
}

int agent_delete(struct agent *a)
{
    const char *name;
    AUTO_CLOSE int parent = agent_open_parent(a->root, a->path, false, &name);

    if (parent < 0) {
        return parent;
    }
    if (unlinkat(parent, name, 0) == 0) {
        return 0;
    }
    if (errno != EISDIR) {
        return -errno;
    }
    if ((a->req.flags & FILES_RECURSIVE) != 0) {
        return delete_tree(a, parent, name);
    }
    return unlinkat(parent, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}
