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
#include "base/file_facts.h"

#define FILES_BODY_MAX 65536 /* bytes of a message behind its head */

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

/*
 * In ENTRIES: each files_entry is followed by its name, a path below the listed directory, and by a
 * link's target: any bytes but NUL, never followed outside. INFO is a files_info followed by a
 * link's target.
 */

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
