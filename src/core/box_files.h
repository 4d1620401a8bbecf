/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a notebook's /workspace.
 *
 * The work is done by a worker of ours inside the box (runner/fileagent.c), so that no process
 * outside ever walks a path that the box can rearrange. What the worker says is parsed as hostile.
 * Every wait goes through fiber_poll() and ends after a time without progress, so a worker that
 * user code stopped or killed holds up no caller.
 *
 * One struct box_files serves one request at a time, by one fiber. Callbacks may wait; what they
 * do not take is not read from the box. Paths are relative to /workspace: NUL-terminated bytes
 * without empty, "." or ".." components; "" is /workspace itself. Names in answers are bytes too:
 * nothing says that they are UTF-8.
 *
 * After FILES_LOST, FILES_TIMEOUT, FILES_PROTOCOL or a callback that gave up a download, the
 * connection is of no more use: close it and open another.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/file_facts.h"
#include "base/limits.h"

#define BOX_FILES_PATIENCE_MS 30000

struct box_files;
struct notebook;

/* A connection of its own to a worker of the notebook's box. NULL and *e on failure. Waits. */
struct box_files *box_files_open(struct notebook *nb, struct err *e);
void box_files_close(struct box_files *f); /* ends the worker, whatever it does; NULL is fine */

/* How long a wait may go without progress; BOX_FILES_PATIENCE_MS at first. */
void box_files_set_patience(struct box_files *f, int64_t ms);

/*
 * What the last failure was. FILES_OK if the last request succeeded.
 */
enum files_status box_files_status(const struct box_files *f);
bool box_files_is_usable(const struct box_files *f); /* false: close it */

/*
 * Where data goes. Returns 0 to go on, anything else to give up; the request then fails with
 * FILES_ABORTED.
 */
struct box_files_sink {
    int (*on_data)(void *user, const void *data, size_t n);
    void *user;
};

/*
 * Where data comes from: up to size bytes into buf. Returns how many, 0 at the end, negative to
 * give up.
 */
struct box_files_source {
    ssize_t (*next)(void *user, void *buf, size_t size);
    void *user;
};

struct box_files_list {
    bool recursive; /* names are then paths below the directory; links are never descended into */
    bool follow;    /* of links on the way to the directory */
    uint64_t limit; /* at most that many entries; 0: FILES_ENTRIES_MAX */
    int (*on_entry)(void *user, const struct files_entry *entry, const char *name,
                    const char *target);
    void *user;
    bool more; /* set: something was left out (limit, depth, directories that cannot be read) */
};
/*
 * In the order of the directory, which is none. name and target, where a link leads, are borrowed
 * for the call and not NUL-terminated: the entry says how long they are.
 */
int box_files_list(struct box_files *f, const char *path, struct box_files_list *list,
                   struct err *e);

/* target: where a link leads, else ""; NULL if it is not wanted. */
int box_files_stat(struct box_files *f, const char *path, bool follow, struct files_info *ret,
                   char target[FILES_PATH_MAX + 1], struct err *e);

struct box_files_read {
    uint64_t offset; /* past the end: no data */
    uint64_t length; /* 0: all of it */
    bool follow;
    int (*on_info)(void *user, const struct files_info *info); /* before any data; may be NULL */
    struct box_files_sink sink;
    uint64_t sent; /* set: bytes given to the sink */
};
/*
 * Regular files only. Success means that exactly the bytes that on_info's size, offset and length
 * promise were delivered; a file that shrinks meanwhile is FILES_CHANGED.
 */
int box_files_read(struct box_files *f, const char *path, struct box_files_read *read,
                   struct err *e);

struct box_files_write {
    uint32_t mode; /* permissions, with or without S_IFREG; 0: 0644 */
    bool parents;
    struct box_files_source source;
    uint64_t written; /* set */
    bool created;     /* set: there was no such file */
};
/*
 * Replaces the file as a whole, or, when anything fails, not at all. A link of that name is
 * replaced, not followed.
 */
int box_files_write(struct box_files *f, const char *path, struct box_files_write *write,
                    struct err *e);

/* flags: FILES_REPLACE, FILES_PARENTS (of the target). */
int box_files_move(struct box_files *f, const char *from, const char *to, uint32_t flags,
                   struct err *e);
int box_files_delete(struct box_files *f, const char *path, bool recursive, struct err *e);
/* With parents, a directory that exists is fine. mode 0: 0755. */
int box_files_mkdir(struct box_files *f, const char *path, uint32_t mode, bool parents,
                    struct err *e);

/*
 * The directory's contents as a pax tar stream: files, directories, links as links; nothing else.
 */
int box_files_pack(struct box_files *f, const char *path, const struct box_files_sink *sink,
                   struct err *e);

/*
 * The whole workspace, to be unpacked in another box: also what its owner may not read. No larger
 * than the box's limits explain. *ret_more: something could not be had, because it is too deep,
 * too long or has holes.
 */
int box_files_copy(struct box_files *f, const struct limits *of, const struct box_files_sink *sink,
                   bool *ret_more, struct err *e);

struct box_files_unpack {
    struct box_files_source source; /* tar: ustar, pax, GNU long names; not compressed */
    uint64_t limit;                 /* entries; 0: FILES_ENTRIES_MAX */
    bool copy;                      /* what box_files_copy() made */
    uint64_t entries;               /* set, also on failure: unpacked ones */
    bool more;                      /* set, of a copy: something could not be made */
};
/*
 * Unpacks into the directory, made if it is missing. What is not allowed (devices, names and links
 * that lead out) ends it with FILES_INVALID_ARCHIVE and the entry's name in *e; entries before it
 * stay.
 */
int box_files_unpack(struct box_files *f, const char *path, struct box_files_unpack *unpack,
                     struct err *e);
