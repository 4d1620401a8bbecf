/* SPDX-License-Identifier: Apache-2.0 */
/* Work on a session's files; see file_work.h. */
#include "api/files/file_work.h"

#include <string.h>

#include "base/log.h"
#include "base/parse.h"
#include "base/str.h"

#define DETAIL_SHOWN 300 /* bytes, in the log: paths are the client's text */

/*
 * How a failure is reported: /api/v1 has a code for each, /workspace/se knows only wrong requests
 * and inner errors.
 */
struct verdict {
    int v1_status;
    int se_status;
    const char *v1_code;
    const char *description;
    const char *solution;
};

static const struct verdict verdicts[] = {
    [FILES_NOT_FOUND] = {404, 404, "Sandbox.FileNotFound", "The file does not exist.",
                         "List the workspace to see what there is."},
    [FILES_EXISTS] = {409, 409, "Sandbox.Conflict", "There is something of that name already.",
                      "Choose another name, or allow it to be replaced."},
    [FILES_NOT_A_DIRECTORY] = {409, 400, "Sandbox.Conflict",
                               "A part of the path is not a directory.",
                               "Name a directory of the workspace."},
    [FILES_IS_A_DIRECTORY] = {409, 400, "Sandbox.Conflict", "The path is a directory.",
                              "Name a file, or use a route for directories."},
    [FILES_NOT_EMPTY] = {409, 409, "Sandbox.Conflict", "The directory is not empty.",
                         "Delete it with recursive=true."},
    [FILES_NO_SPACE] = {507, 507, "Sandbox.DiskFull", "The disk of the session is full.",
                        "Delete files, or create a session with more disk."},
    [FILES_TOO_LARGE] = {413, 413, "Sandbox.TooLarge", "It is too large.",
                         "Split it, or name a smaller directory."},
    [FILES_DENIED] = {409, 400, "Sandbox.Conflict", "The path cannot be used.",
                      "Name a regular file or a directory; symbolic links are not followed."},
    [FILES_INVALID_PATH] = {422, 400, "Sandbox.InvalidParameter", "The path is not valid.",
                            "Name a path relative to the workspace."},
    [FILES_INVALID_ARCHIVE] = {422, 422, "Sandbox.InvalidParameter", "The archive is not valid.",
                               "Send a tar of regular files, directories and links that stay "
                               "inside."},
    [FILES_CHANGED] = {409, 503, "Sandbox.Conflict", "The file changed while it was read.",
                       "Try again."},
    [FILES_FAILED] = {500, 500, "Sandbox.InternalError", "The files cannot be reached.",
                      "Try again; if it stays, end the session."},
    [FILES_LOST] = {503, 503, "Sandbox.Unavailable", "The session does not answer.",
                    "Try again; if it stays, end the session."},
    [FILES_TIMEOUT] = {503, 503, "Sandbox.Unavailable", "The session does not answer.",
                       "Try again; if it stays, end the session."},
    [FILES_PROTOCOL] = {500, 500, "Sandbox.InternalError", "The session answered nonsense.",
                        "End the session."},
};

static void reply(struct api_call *call, enum files_status status, const char *detail)
{
    bool is_known = (size_t)status < ARRAY_LEN(verdicts) && verdicts[status].description != NULL;
    const struct verdict *v = &verdicts[is_known ? status : FILES_FAILED];
    bool is_se = call_info(call)->dialect == API_WORKSPACE_SE;
    int http = is_se ? v->se_status : v->v1_status;
    const char *code = !is_se       ? v->v1_code
                       : http < 500 ? "Sandbox.InvalidParameter"
                                    : "Sandbox.InternalError";
    if (status == FILES_DENIED || status == FILES_INVALID_PATH || status == FILES_INVALID_ARCHIVE) {
        char shown[DETAIL_SHOWN];
        str_printable(shown, sizeof(shown), detail, strlen(detail));
        log_warn("file_denied", "request_id=%s operation=%s: %s", call_request_id(call),
                 call_info(call)->id, shown);
    }
    call_reply_error(call, http, code, v->description, detail, v->solution);
}

/* There are no files to work on: the session's fault, not theirs. */
static void refuse_session(struct file_work *w, const struct err *e)
{
    file_work_end(w);
    if (call_info(w->call)->dialect == API_WORKSPACE_SE) {
        reply(w->call, FILES_LOST, e->msg);
    } else if (e->code == ERR_NOT_FOUND) { /* its box ended, and no other can be made */
        call_reply_error(w->call, 404, "Sandbox.TemplateNotFound", NULL, e->msg, NULL);
    } else {
        call_reply_err(w->call, e);
    }
}

int file_work_begin(struct file_work *w, struct api_call *call, struct session *session)
{
    *w = (struct file_work){.call = call, .session = session};
    return session != NULL ? file_work_again(w) : -1;
}

static void give_files(struct file_work *w)
{
    if (w->files != NULL && w->is_apart) {
        session_files_close(w->session, w->files);
    } else if (w->files != NULL) {
        session_files_give(w->session, w->files, w->changed);
    }
    w->files = NULL;
    w->is_apart = false;
}

void file_work_read_on(struct file_work *w)
{
    w->is_apart = w->is_apart || session_files_read_on(w->session);
}

int file_work_again(struct file_work *w)
{
    struct err e;

    give_files(w);
    w->files = session_files_take(w->session, &e);
    if (w->files == NULL) {
        refuse_session(w, &e);
        return -1;
    }
    return 0;
}

void file_work_end(struct file_work *w)
{
    give_files(w);
    session_release(w->session);
    w->session = NULL;
}

void file_work_refuse(struct file_work *w, enum files_status status, const char *detail)
{
    file_work_end(w);
    if (status != FILES_ABORTED) {
        reply(w->call, status, detail);
    }
}

void file_work_fail(struct file_work *w, const struct err *e)
{
    enum files_status status = box_files_status(w->files);
    struct err ended;

    if (status == FILES_LOST && session_is_ending(w->session)) {
        err_set(&ended, ERR_CONFLICT, "session %s has ended", session_id(w->session));
        refuse_session(w, &ended);
        return;
    }
    file_work_refuse(w, status, e->msg);
}

void file_work_fail_write(struct file_work *w, const struct err *e)
{
    if (box_files_status(w->files) == FILES_TOO_LARGE) {
        file_work_refuse(w, FILES_NO_SPACE, "a file is larger than the disk of the session");
        return;
    }
    file_work_fail(w, e);
}

void file_work_refuse_condition(struct file_work *w)
{
    file_work_end(w);
    call_reply_error(w->call, 412, NULL, "The file has changed.",
                     "a condition of the request does not hold for the file as it is now",
                     "Look at the file again.");
}

int file_work_check_conditions(struct file_work *w, const char *path)
{
    const struct http_conditions conditions = {
        .if_match = call_header(w->call, "If-Match"),
        .if_none_match = call_header(w->call, "If-None-Match"),
        .if_unmodified_since = call_header(w->call, "If-Unmodified-Since"),
    };
    char etag[HTTP_ETAG_SIZE];
    struct files_info info;
    struct err e;

    if (conditions.if_match == NULL && conditions.if_none_match == NULL &&
        conditions.if_unmodified_since == NULL) {
        return 0;
    }
    bool exists = box_files_stat(w->files, path, false, &info, NULL, &e) == 0;
    if (!exists && box_files_status(w->files) != FILES_NOT_FOUND) {
        file_work_fail(w, &e);
        return -1;
    }
    bool holds = conditions.if_match == NULL; /* of what is not there */
    if (exists) {
        file_etag(&info, etag);
        holds = http_select(&conditions, info.size, etag, (time_t)(file_time_ms(&info) / 1000))
                    .status == 200;
    }
    if (!holds) {
        file_work_refuse_condition(w);
    }
    return holds ? 0 : -1;
}

int file_work_check_quota(struct file_work *w)
{
    const char *length = call_header(w->call, "Content-Length");
    uint64_t bytes = 1;
    struct err e = {0};

    if (length != NULL && parse_u64(length, &bytes) < 0) {
        bytes = 1;
    }
    if (session_check_upload(w->session, bytes, &e) < 0) {
        file_work_end(w);
        call_reply_err(w->call, &e);
        return -1;
    }
    return 0;
}

int file_work_write(struct file_work *w, const char *path, struct box_files_write *write)
{
    struct err e;

    if (file_work_check_quota(w) < 0) {
        return -1;
    }
    w->changed = true;
    write->parents = true;
    if (box_files_write(w->files, path, write, &e) < 0) {
        file_work_fail_write(w, &e);
        return -1;
    }
    return 0;
}
