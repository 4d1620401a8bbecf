/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between core/box_files.c and the file worker inside a box (runner/fileagent.c).
 *
 * A message is a head and a body of known shape. One request is served at a time:
 *
 *     outside -> box   request (FILES_LIST to FILES_UNPACK); after FILES_WRITE and FILES_UNPACK
 *     then DATA ... END
 *     box -> outside   INFO, ENTRIES and DATA as the request asks for, TICK while it takes long,
 *     then DONE
 *
 * ABORT instead of END cancels a write. DONE may come before END was sent: the rest is then
 * discarded up to END or ABORT. Descriptors are never sent. User code in the box cannot reach the
 * socket, but it may have compromised the worker, so messages from the box are parsed as hostile;
 * the worker parses requests with the same care.
 *
 * Names are bytes: anything but NUL and '/'. Little-endian hosts only; both ends are always on one
 * machine.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define FILES_PATH_MAX 4096                   /* bytes of a path, all of it */
#define FILES_NAME_MAX 255                    /* bytes of one component */
#define FILES_BODY_MAX 65536                  /* bytes of a message behind its head */
#define FILES_ENTRIES_MAX ((uint64_t)1000000) /* of one listing or archive */
#define FILES_DEPTH_MAX 64 /* directories below one another in a listing or archive */

enum files_type {
    /* requests */
    FILES_LIST = 1,
    FILES_STAT,
    FILES_READ,
    FILES_WRITE,
    FILES_MOVE,
    FILES_DELETE,
    FILES_MKDIR,
    FILES_PACK,
    FILES_UNPACK,
    /* what follows some requests; DATA goes both ways */
    FILES_DATA,
    FILES_END,
    FILES_ABORT,
    /* answers */
    FILES_READY,   /* once, at the start */
    FILES_INFO,    /* one entry without a name */
    FILES_ENTRIES, /* entries with names, one after the other */
    FILES_TICK,    /* still working */
    FILES_DONE,
};

enum files_flag {
    FILES_RECURSIVE = 1, /* LIST, DELETE */
    /* WRITE, MOVE, MKDIR: make missing parents; for MKDIR an existing directory is fine. */
    FILES_PARENTS = 2,
    FILES_REPLACE = 4, /* MOVE: an existing target is replaced */
    FILES_FOLLOW = 8,  /* STAT, READ, LIST, PACK: links may be followed if they stay beneath */
    /*
     * PACK, UNPACK: husk's own copy of a workspace. It includes files whatever their modes, which
     * are restored; links keep their targets; what cannot be read at all is left out.
     */
    FILES_COPY = 16,
    FILES_FLAGS = 31, /* all of them */
};

/* Why a request failed. */
enum files_status {
    FILES_OK,
    FILES_NOT_FOUND,
    FILES_EXISTS,
    FILES_NOT_A_DIRECTORY,
    FILES_IS_A_DIRECTORY,
    FILES_NOT_EMPTY,
    FILES_NO_SPACE,  /* bytes or files: the box's disk limit */
    FILES_TOO_LARGE, /* one of our bounds: entries, depth, size of a file */
    FILES_DENIED,    /* modes, links that lead out, neither a file nor a directory */
    FILES_INVALID_PATH,
    FILES_INVALID_ARCHIVE,
    FILES_CHANGED, /* the file shrank while it was read */
    FILES_ABORTED, /* on request */
    FILES_FAILED,  /* anything else: see the errno */
    FILES_STATUSES,
    /* never sent: only core uses these */
    FILES_LOST = FILES_STATUSES, /* the worker is gone: killed, or its box ended */
    FILES_TIMEOUT,               /* no progress */
    FILES_PROTOCOL,              /* it broke the protocol */
};

enum files_kind { FILES_FILE = 1, FILES_DIRECTORY, FILES_LINK, FILES_OTHER };

struct files_head {
    uint32_t type; /* enum files_type */
    uint32_t len;  /* bytes of body */
};

/* The body of a request, followed by path and, for MOVE, target. */
struct files_req {
    uint32_t flags;
    uint32_t mode;   /* WRITE, MKDIR: permission bits */
    uint64_t offset; /* READ */
    uint64_t length; /* READ: at most that many bytes; LIST, UNPACK: at most that many entries */
    uint32_t path_len;
    uint32_t to_len;
};

struct files_info {
    uint32_t kind; /* enum files_kind */
    uint32_t mode; /* permission bits */
    uint64_t size;
    int64_t mtime_ns; /* since 1970 */
    int64_t ctime_ns; /* of the last change; code in the box cannot set it */
    uint64_t inode;
};

/*
 * In ENTRIES: each followed by its name, a path below the listed directory, and by a link's target:
 * any bytes but NUL, never followed outside. INFO is a files_info followed by a link's target.
 */
struct files_entry {
    struct files_info info;
    uint32_t name_len;
    uint32_t target_len; /* 0: no link, or not known */
};

/*
 * The body of DONE, followed by text: the name that the status is about, if it is not the requested
 * path.
 */
struct files_done {
    uint32_t status; /* enum files_status */
    int32_t sys_errno;
    uint64_t count; /* bytes of DATA (READ, PACK, WRITE), entries (LIST, UNPACK) */
    uint32_t more;  /* LIST, PACK: some entries were left out; WRITE, MKDIR: it is new */
    uint32_t text_len;
};

/*
 * True for a path that may be used: relative, no empty, "." or ".." component. The empty path is
 * the workspace itself.
 */
bool files_msg_path_ok(const char *path, size_t len, bool empty_is_fine);

/* Building a message in an empty buf: 0 or -errno. */
int files_msg_put(struct buf *b, enum files_type type, const void *body, size_t len);
int files_msg_put_req(struct buf *b, enum files_type type, const struct files_req *req,
                      const char *path, const char *to);
int files_msg_put_done(struct buf *b, const struct files_done *done, const char *text);

/*
 * A batch of entries: start with files_msg_put(b, FILES_ENTRIES, NULL, 0), then add; -EMSGSIZE:
 * send it first.
 */
int files_msg_put_entry(struct buf *b, const struct files_info *info, const char *name,
                        const char *target);
int files_msg_put_info(struct buf *b, const struct files_info *info, const char *target);

/* Parsing untrusted bytes. Each returns 0 or -EBADMSG; *ret is written only on success. */
int files_msg_get_head(const void *data, bool from_box, struct files_head *ret);
int files_msg_get_req(const struct files_head *head, const char *body, struct files_req *ret,
                      char path[FILES_PATH_MAX + 1], char to[FILES_PATH_MAX + 1]);
int files_msg_get_info(const char *body, size_t len, struct files_info *ret,
                       char target[FILES_PATH_MAX + 1]); /* target: NULL if it is not wanted */
/* 1 with *ret and its borrowed name, behind which the target is; 0 at the end. *at starts at 0. */
int files_msg_get_entry(const char *body, size_t len, size_t *at, struct files_entry *ret,
                        const char **ret_name);
int files_msg_get_done(const char *body, size_t len, struct files_done *ret, const char **ret_text);

/* The kind of failure that an errno of file work is. */
enum files_status files_msg_status_of(int sys_errno);
const char *files_msg_status_name(enum files_status status); /* "not_found", ... */
