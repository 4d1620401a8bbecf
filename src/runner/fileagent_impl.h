/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the file worker share; see fileagent.h. Functions return 0 or -errno. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/buf.h"
#include "wire/files_msg.h"

struct agent {
    int sock;
    int root;            /* /workspace */
    struct buf out;      /* a message that is being built */
    uint64_t sent_ms;    /* when the last message was sent */
    bool stream_is_open; /* DATA may still come in */
    char body[FILES_BODY_MAX];

    /* the request, */
    struct files_req req;
    char path[FILES_PATH_MAX + 1];
    char to[FILES_PATH_MAX + 1];
    /* and the answer at its end */
    struct files_done done;
    char text[FILES_PATH_MAX + 1];
};

/* A copy of the workspace that outlives its box, and not an archive for its user. */
static inline bool agent_is_copy(const struct agent *a)
{
    return (a->req.flags & FILES_COPY) != 0;
}

/* ---- fileagent_io.c: messages ---- */

int agent_recv(struct agent *a, struct files_head *head); /* body in a->body; -EPIPE at the end */
int agent_send(struct agent *a);                          /* a->out */
int agent_tick(struct agent *a);                          /* reports progress now and then */
int agent_send_info(struct agent *a, const struct stat *st, const char *target);
struct files_info agent_info(const struct stat *st);

/* Bytes out, collected to messages of full size. */
int agent_write(struct agent *a, const void *data, size_t n);
/* *n bytes of a file, from offset on. *n: how many are left where the file ended before that. */
int agent_write_file(struct agent *a, int fd, uint64_t offset, uint64_t *n);
int agent_flush(struct agent *a);

/* The next bytes in: how many are in a->body, 0 at the end, -ECANCELED after ABORT, -errno. */
ssize_t agent_read(struct agent *a);

/* ---- fileagent_path.c: everything beneath a directory ---- */

/* follow: links on the way that stay beneath. Otherwise there may be none. */
int agent_open(int dir, const char *path, int flags, bool follow);
/*
 * An entry of dir whose mode may shut its owner out: adds need to its mode where that lacks it.
 * *ret_mode: the old mode; the caller restores it with agent_close_again().
 */
int agent_open_forced(int dir, const char *name, int flags, mode_t need, mode_t *ret_mode);
void agent_close_again(int fd, mode_t was, mode_t need);
/* The directory that path's last component is in, for use with *at() calls. */
int agent_open_parent(int root, const char *path, bool make, const char **ret_name);
/* A link's target, by its directory and name, or by itself and "". "" when it is not a link. */
void agent_target(int dir, const char *name, const struct stat *st, char ret[FILES_PATH_MAX + 1]);
/* Makes what is missing. *ret_made: the last component is new. */
int agent_make_dirs(int root, const char *path, mode_t mode, bool *ret_made);

/* A file that gets its name only when it is complete. */
struct agent_file {
    int dir; /* owned */
    int fd;
    char temp[40];
};
int agent_file_begin(struct agent_file *f, int dir); /* takes dir, also on failure */
/* Gives it its name. mtime: seconds; NULL: now. Releases f, also on failure. */
int agent_file_finish(struct agent_file *f, const char *name, mode_t mode, const int64_t *mtime);
void agent_file_drop(struct agent_file *f);

/* ---- fileagent_names.c: files with several names ---- */

struct agent_name;
struct agent_names {
    struct agent_name *slots; /* hashed by inode */
    size_t n_slots;
    size_t n;
    struct buf paths; /* a NUL behind each */
};
/* The path under which this file was packed before, or NULL. */
const char *agent_names_find(const struct agent_names *t, const struct stat *st);
void agent_names_add(struct agent_names *t, const struct stat *st, const char *path);
void agent_names_release(struct agent_names *t);

/* ---- fileagent_walk.c ---- */

#define AGENT_ENTER 0500 /* what a directory's owner needs to walk it */

struct agent_walk {
    struct agent *agent;
    bool recursive;
    bool strict;                   /* a directory that cannot be entered is an error, not a gap */
    bool forced;                   /* enters directories whatever their modes */
    uint64_t room;                 /* PACK: bytes that files may still have */
    struct agent_names names;      /* PACK: of a copy */
    uint64_t left;                 /* entries that may still be visited */
    bool more;                     /* something was not visited */
    char path[FILES_PATH_MAX + 1]; /* of the entry, below where the walk began */
    /*
     * dir and name: the entry and where it is. st: of the entry itself, never of a link's target.
     */
    int (*visit)(struct agent_walk *w, int dir, const char *name, const struct stat *st);
};
int agent_walk(struct agent_walk *w, int dir); /* takes dir */
/* Something cannot be visited: an error (r), or a gap that is reported to the client. */
int agent_walk_gap(struct agent_walk *w, int r);
/* A temporary shortage, not a fault of the entry: a copy must not leave anything out for it. */
bool agent_is_shortage(int r);

/* ---- requests ---- */

int agent_list(struct agent *a);
int agent_delete(struct agent *a);
int agent_pack(struct agent *a);
int agent_unpack(struct agent *a);
