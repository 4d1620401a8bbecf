/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that bring data into the box: files and archives; see box_files.h. */
#include <errno.h>
#include <string.h>

#include "base/attr.h"
#include "base/fault.h"
#include "core/box_files_impl.h"

/* One message of data. 1: sent; 0: there is no more; -1, or -2 when the source gave up. */
static int send_part(struct box_files *f, const struct box_files_source *source, uint64_t *sent,
                     struct err *e)
{
    struct files_head head = {.type = FILES_DATA};

    f->out.len = 0;
    if (buf_reserve(&f->out, BOX_FILES_MESSAGE_MAX) < 0) {
        return box_files_fail(f, FILES_LOST, ENOMEM, NULL, e);
    }
    ssize_t n = source->next(source->user, f->out.data + sizeof(head), FILES_BODY_MAX);
    if (n <= 0 || n > FILES_BODY_MAX) {
        return n == 0 ? 0 : -2;
    }
    head.len = (uint32_t)n;
    memcpy(f->out.data, &head, sizeof(head));
    f->out.len = sizeof(head) + (size_t)n;
    *sent += (uint64_t)n;
    return box_files_send(f, e) < 0 ? -1 : 1;
}

static int send_mark(struct box_files *f, enum files_type type, struct err *e)
{
    if (files_msg_put(&f->out, type, NULL, 0) < 0) {
        return box_files_fail(f, FILES_LOST, ENOMEM, NULL, e);
    }
    return box_files_send(f, e);
}

/*
 * Sends everything, then waits for DONE. Ends early when the worker has failed or the source gave
 * up.
 */
static int upload(struct box_files *f, const char *path, const struct box_files_source *source,
                  uint64_t *sent, struct err *e)
{
    struct files_head head;
    const char *body;
    struct err ignored;
    int part;

    while ((part = send_part(f, source, sent, e)) > 0) {
        int r = box_files_next(f, false, path, &head, &body, e);
        if (r < 0 && f->over) {
            enum files_status why = f->status;
            (void)send_mark(f, FILES_ABORT, &ignored); /* it throws away what comes before that */
            f->status = why;
            return -1;
        }
        if (r != 0) {
            return r < 0 ? r : box_files_broke_rules(f, e);
        }
    }
    if (part == -1 || send_mark(f, part == 0 ? FILES_END : FILES_ABORT, e) < 0) {
        return -1;
    }
    int r = box_files_next(f, true, path, &head, &body, e);
    if (r < 0) {
        return r;
    }
    return part == 0 && head.type == FILES_DONE ? 0 : box_files_broke_rules(f, e);
}

static int store(struct box_files *f, enum files_type type, const struct files_req *req,
                 const char *path, const struct box_files_source *source, struct err *e)
{
    uint64_t sent = 0;
    int r = box_files_begin(f, type, req, path, NULL, e);

    if (r < 0) {
        return f->busy ? box_files_end(f, r) : r;
    }
    r = box_files_end(f, upload(f, path, source, &sent, e));
    if (r == 0 && type == FILES_WRITE && f->done.count != sent) {
        return box_files_broke_rules(f, e);
    }
    return r;
}

int box_files_write(struct box_files *f, const char *path, struct box_files_write *write,
                    struct err *e)
{
    struct files_req req = {.flags = write->parents ? FILES_PARENTS : 0,
                            .mode = write->mode != 0 ? write->mode & 0777 : 0644};

    FAULT_POINT("upload.before");
    int r = store(f, FILES_WRITE, &req, path, &write->source, e);
    FAULT_POINT("upload.in_place");
    write->written = r == 0 ? f->done.count : 0;
    write->created = r == 0 && f->done.more != 0;
    return r;
}

int box_files_unpack(struct box_files *f, const char *path, struct box_files_unpack *unpack,
                     struct err *e)
{
    uint64_t limit = unpack->limit != 0 ? MIN(unpack->limit, FILES_ENTRIES_MAX) : FILES_ENTRIES_MAX;
    struct files_req req = {.length = limit, .flags = unpack->copy ? FILES_COPY : 0};

    int r = store(f, FILES_UNPACK, &req, path, &unpack->source, e);
    FAULT_POINT("upload.unpacked");
    unpack->entries = f->over ? f->done.count : 0;
    unpack->more = r == 0 && f->done.more != 0;
    return r == 0 && f->done.count > limit ? box_files_broke_rules(f, e) : r;
}
