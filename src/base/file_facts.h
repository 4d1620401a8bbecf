/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can be said about files of a box: bounds, kinds, why a request failed. Shared by the file
 * worker inside the box, the messages that it exchanges with us (wire/files_msg.h) and the callers
 * of core/box_files.h.
 */
#pragma once

#include <stdint.h>

#define FILES_PATH_MAX 4096                   /* bytes of a path, all of it */
#define FILES_NAME_MAX 255                    /* bytes of one component */
#define FILES_ENTRIES_MAX ((uint64_t)1000000) /* of one listing or archive */
#define FILES_DEPTH_MAX 64 /* directories below one another in a listing or archive */

enum files_flag {
    FILES_RECURSIVE = 1, /* LIST, DELETE */
    /* WRITE, MOVE, MKDIR: make missing parents; a directory that exists is fine for MKDIR */
    FILES_PARENTS = 2,
    FILES_REPLACE = 4, /* MOVE: an existing target goes */
    FILES_FOLLOW = 8,  /* STAT, READ, LIST, PACK: links may be followed if they stay beneath */
    /*
     * PACK, UNPACK: husk's own copy of a workspace. Modes keep nothing out of it and come back,
     * links lead where they led, and what cannot be had at all is left out.
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
    FILES_DENIED,    /* modes, links that lead out, what is neither file nor directory */
    FILES_INVALID_PATH,
    FILES_INVALID_ARCHIVE,
    FILES_CHANGED, /* the file shrank while it was read */
    FILES_ABORTED, /* as asked */
    FILES_FAILED,  /* anything else: see the errno */
    FILES_STATUSES,
    /* only ever said outside */
    FILES_LOST = FILES_STATUSES, /* the worker is gone: killed, or its box ended */
    FILES_TIMEOUT,               /* no progress */
    FILES_PROTOCOL,              /* it broke the rules */
};

enum files_kind { FILES_FILE = 1, FILES_DIRECTORY, FILES_LINK, FILES_OTHER };

struct files_info {
    uint32_t kind; /* enum files_kind */
    uint32_t mode; /* permission bits */
    uint64_t size;
    int64_t mtime_ns; /* since 1970 */
    int64_t ctime_ns; /* of the last change; code in the box cannot set it */
    uint64_t inode;
};

/* An entry of a directory. Its name and where a link leads are given beside it. */
struct files_entry {
    struct files_info info;
    uint32_t name_len;
    uint32_t target_len; /* 0: no link, or not known */
};
