/* SPDX-License-Identifier: Apache-2.0 */
/* The connection below core/box_files.h: messages to and from a file worker, with deadlines. */
#pragma once

#include "base/buf.h"
#include "core/box_files.h"
#include "core/channel.h"
#include "wire/files_msg.h"

#define BOX_FILES_MESSAGE_MAX (sizeof(struct files_head) + FILES_BODY_MAX)

struct box_files {
    int fd;
    struct buf in;
    size_t used; /* bytes at the front of `in` that belong to the message handed out last */
    struct buf out;
    int64_t patience_ms;
    enum files_status status;
    bool broken; /* no request can follow */
    bool busy;
    bool over; /* DONE came: */
    struct files_done done;
};

/* control: of the first process of a box; used only during this call. NULL and *e on failure. */
struct box_files *box_files_connect(struct channel *control, struct err *e);

/* Fails with a status, about a path (NULL: none). Returns -1. */
int box_files_fail(struct box_files *f, enum files_status status, int sys_errno, const char *path,
                   struct err *e);

/* Sends f->out. */
int box_files_send(struct box_files *f, struct err *e);

/*
 * The next message but ticks: 1 with head and body (borrowed until the next call); 0 if none has
 * come and wait is false; -1. DONE is taken apart into f->done, and ends the request with -1 when
 * it says so.
 */
int box_files_next(struct box_files *f, bool wait, const char *path, struct files_head *head,
                   const char **body, struct err *e);

/* What every request begins and ends with. If begin fails and f->busy is set, end must follow. */
int box_files_begin(struct box_files *f, enum files_type type, const struct files_req *req,
                    const char *path, const char *to, struct err *e);
int box_files_end(struct box_files *f, int r); /* returns r */

int box_files_broke_rules(struct box_files *f, struct err *e); /* -1 */
