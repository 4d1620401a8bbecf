/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1: a directory as tar, plain or compressed, out and in; see api/v1.yaml. */
#include <errno.h>
#include <string.h>

#include "api/files/file_answer.h"
#include "api/files/file_upload.h"
#include "api/files/gzip.h"
#include "api/v1/workspace_files.h"
#include "base/str.h"
#include "http/field.h"

/* ---- out ---- */

struct packing {
    struct api_call *call;
    struct gzip_writer *gzip; /* NULL: plain */
    const char *name;         /* of the directory */
    struct file_work *work;   /* NULL: only described */
    bool has_begun;
};

static int to_client(void *user, const void *data, size_t n)
{
    return call_write(user, data, n);
}

static void begin(struct packing *p)
{
    char name[FILES_NAME_MAX + sizeof(".tar.gz")];

    (void)str_format(name, sizeof(name), "%s.tar%s", p->name, p->gzip != NULL ? ".gz" : "");
    file_answer_fields(p->call, name, false);
    call_begin(p->call, 200, p->gzip != NULL ? "application/gzip" : "application/x-tar",
               HTTP_LENGTH_UNKNOWN);
    p->has_begun = true;
    if (p->work != NULL) {
        file_work_read_on(p->work);
    }
}

/* The answer begins with the first data: until then a failure can still be an error status. */
static int on_pack(void *user, const void *data, size_t n)
{
    struct packing *p = user;

    if (!p->has_begun) {
        begin(p);
    }
    return p->gzip != NULL ? gzip_write(p->gzip, data, n) : call_write(p->call, data, n);
}

static void pack(struct file_work *w, const char *dir, struct packing *p)
{
    const struct box_files_sink sink = {.on_data = on_pack, .user = p};
    struct err e;

    p->work = w;
    int r = box_files_pack(w->files, dir, &sink, &e);
    if (r < 0 && !p->has_begun) {
        file_work_fail(w, &e);
        return;
    }
    file_work_end(w);
    if (r < 0 || (p->gzip != NULL && gzip_write_end(p->gzip) < 0)) {
        file_answer_break(p->call);
        return;
    }
    call_end(p->call);
}

/* Nothing is packed for a HEAD. */
static void describe(struct file_work *w, const char *dir, struct packing *p)
{
    struct files_info info;
    struct err e;

    if (box_files_stat(w->files, dir, false, &info, NULL, &e) < 0) {
        file_work_fail(w, &e);
    } else if (info.kind != FILES_DIRECTORY) {
        file_work_refuse(w, FILES_NOT_A_DIRECTORY, "only directories can be packed");
    } else {
        file_work_end(w);
        begin(p);
        call_end(p->call);
    }
}

void api_v1_archive_get(struct api_call *call)
{
    const char *dir = v1_directory(call);
    const char *slash = strrchr(dir, '/');
    const char *name = slash != NULL ? slash + 1 : dir;
    struct packing p = {.call = call, .name = name[0] != '\0' ? name : "workspace"};
    struct file_work w;

    if (str_eq(call_text(call, "format"), "tar.gz")) {
        p.gzip = gzip_writer_new(to_client, call);
        if (p.gzip == NULL) {
            struct err e;
            (void)err_sys(&e, ENOMEM, "compression");
            call_reply_err(call, &e);
            return;
        }
    }
    if (v1_file_work_begin(&w, call) == 0) {
        (call_is_head(call) ? describe : pack)(&w, dir, &p);
    }
    gzip_writer_free(p.gzip);
}

/* ---- in ---- */

struct unpacking {
    struct api_call *call;
    struct gzip_reader *gzip; /* NULL: plain */
    uint64_t bytes;           /* of the tar */
    uint64_t most;
    const char *problem; /* why we gave up; NULL: we did not, or it was answered */
    bool is_too_large;
};

static ssize_t on_unpack(void *user, void *buf, size_t size)
{
    struct unpacking *u = user;
    ssize_t n = u->gzip != NULL ? gzip_read(u->gzip, buf, size) : call_read(u->call, buf, size);

    if (n == -EBADMSG && u->gzip != NULL) {
        u->problem = "the data are not gzip, are damaged, or stop too early";
        return -1;
    }
    if (n > 0) {
        u->bytes += (uint64_t)n;
        u->is_too_large = u->bytes > u->most;
    }
    return u->is_too_large ? -1 : n;
}

static void unpack(struct file_work *w, const char *dir, struct unpacking *u)
{
    struct box_files_unpack unpack = {.source = {.next = on_unpack, .user = u}};
    struct err e;

    if (file_work_check_quota(w) < 0) {
        return;
    }
    w->changed = true;
    if (box_files_unpack(w->files, dir, &unpack, &e) < 0) {
        if (u->is_too_large) {
            file_work_refuse(w, FILES_TOO_LARGE,
                             "the unpacked archive is larger than an upload may be");
        } else if (u->problem != NULL) {
            file_work_refuse(w, FILES_INVALID_ARCHIVE, u->problem);
        } else {
            file_work_fail_write(w, &e);
        }
        return;
    }
    file_work_end(w);
    call_reply_json(u->call, 200,
                    json_pack("{s:s, s:s, s:I, s:I}", "session_id",
                              call_text(u->call, "session_id"), "path", dir, "entries",
                              (json_int_t)unpack.entries, "bytes", (json_int_t)u->bytes));
}

/* Bytes of no known kind are taken for a tar. */
static bool is_plain(const char *type)
{
    return type == NULL || http_type_is(type, "application/x-tar") ||
           http_type_is(type, "application/octet-stream");
}

void api_v1_archive_put(struct api_call *call)
{
    const char *type = call_header(call, "Content-Type");
    struct unpacking u = {.call = call, .most = call_info(call)->body_max};
    struct file_work w;

    if (!is_plain(type) && !http_type_is(type, "application/gzip")) {
        call_reply_error(call, 415, NULL, NULL,
                         "the body must be an archive, with Content-Type: application/x-tar or "
                         "application/gzip",
                         NULL);
        return;
    }
    if (!is_plain(type)) {
        u.gzip = gzip_reader_new(file_upload_next, call);
        if (u.gzip == NULL) {
            struct err e;
            (void)err_sys(&e, ENOMEM, "compression");
            call_reply_err(call, &e);
            return;
        }
    }
    if (v1_file_work_begin(&w, call) == 0) {
        unpack(&w, v1_directory(call), &u);
    }
    gzip_reader_free(u.gzip);
}
