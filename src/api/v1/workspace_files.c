/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1: files of a session's workspace; see api/v1.yaml. */
#include <string.h>

#include "api/files/file_answer.h"
#include "api/files/file_list.h"
#include "api/files/file_upload.h"
#include "api/v1/shape.h"
#include "api/v1/workspace_files.h"
#include "base/str.h"

int v1_file_work_begin(struct file_work *w, struct api_call *call)
{
    return file_work_begin(w, call, v1_hold_session(call));
}

const char *v1_directory(const struct api_call *call)
{
    const char *path = call_text(call, "path");

    return path == NULL || str_eq(path, ".") ? "" : path;
}

/* ---- entries ---- */

/*
 * As the contract's FileEntry. Where a link leads is only said: nothing outside the box follows it.
 */
static json_t *entry_json(const char *path, const struct files_info *info, const char *target)
{
    char etag[HTTP_ETAG_SIZE];
    char time[FILE_TIME_SIZE];
    char mode[8];
    char inside[sizeof("/workspace/") + FILES_PATH_MAX] = "";
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;

    file_etag(info, etag);
    file_time_text(file_time_ms(info), time);
    (void)str_format(mode, sizeof(mode), "%04o", info->mode & 0777);
    (void)str_format(inside, sizeof(inside), "/workspace/%s", path);
    json_t *leads = target[0] != '\0' ? api_text_json(target, strlen(target)) : json_null();
    return json_pack("{s:o, s:o, s:o, s:s, s:I, s:s, s:s, s:s?, s:o}", "name",
                     api_text_json(name, strlen(name)), "path", api_text_json(path, strlen(path)),
                     "container_path", api_text_json(inside, strlen(inside)), "type",
                     file_kind_word(info->kind), "size", (json_int_t)info->size, "mode", mode,
                     "modified_time", time, "etag", info->kind == FILES_FILE ? etag : NULL,
                     "target", leads);
}

/* Ends the work with the entry as the answer. */
static void reply_entry(struct file_work *w, int status, const char *path)
{
    struct files_info info;
    struct err e;
    char target[FILES_PATH_MAX + 1];

    if (box_files_stat(w->files, path, false, &info, target, &e) < 0) {
        file_work_fail(w, &e);
        return;
    }
    file_work_end(w);
    call_reply_json(w->call, status, entry_json(path, &info, target));
}

void api_v1_file_stat(struct api_call *call)
{
    struct file_work w;

    if (v1_file_work_begin(&w, call) == 0) {
        reply_entry(&w, 200, call_text(call, "path"));
    }
}

/* A page of the list: from offset on, at most limit. */
static json_t *page_json(const struct file_list *list, const char *dir, size_t offset, size_t limit)
{
    json_t *files = json_array();
    char path[FILES_PATH_MAX + 1];

    for (size_t i = offset; i < list->n && i - offset < limit; i++) {
        const struct file_list_entry *entry = &list->entries[i];
        const char *slash = dir[0] != '\0' ? "/" : "";
        if (str_format(path, sizeof(path), "%s%s%s", dir, slash, entry->name) == 0) {
            (void)json_array_append_new(files, entry_json(path, &entry->info, entry->target));
        }
    }
    return files;
}

void api_v1_file_list(struct api_call *call)
{
    const char *dir = v1_directory(call);
    size_t offset = (size_t)call_int(call, "offset", 0);
    size_t limit = (size_t)call_int(call, "limit", 1000);
    AUTO_FILE_LIST struct file_list list = {0};
    struct file_work w;

    if (v1_file_work_begin(&w, call) < 0 ||
        file_list_read(&w, dir, call_bool(call, "recursive", false), &list) < 0) {
        return;
    }
    file_work_end(&w);
    json_t *files = page_json(&list, dir, offset, limit);
    bool has_more = offset < list.n && list.n - offset > limit;
    call_reply_json(call, 200,
                    json_pack("{s:s, s:s, s:o, s:I, s:b}", "session_id",
                              call_text(call, "session_id"), "path", dir, "files", files, "count",
                              (json_int_t)json_array_size(files), "has_more", (int)has_more));
}

/* ---- uploads ---- */

/*
 * Ends the work. The ETag is left out when the box has removed or replaced the file in the
 * meantime.
 */
static void reply_written(struct file_work *w, int status, const char *path, uint64_t size)
{
    struct files_info info;
    struct err e;
    char etag[HTTP_ETAG_SIZE];
    json_t *answer = json_pack("{s:s, s:s, s:I}", "session_id", call_text(w->call, "session_id"),
                               "file_path", path, "size", (json_int_t)size);

    if (box_files_stat(w->files, path, false, &info, NULL, &e) == 0 && info.kind == FILES_FILE &&
        info.size == size) {
        file_etag(&info, etag);
        (void)json_object_set_new(answer, "etag", json_string(etag));
    }
    file_work_end(w);
    call_reply_json(w->call, status, answer);
}

void api_v1_file_put(struct api_call *call)
{
    const char *path = call_text(call, "path");
    struct box_files_write write = {.source = {.next = file_upload_next, .user = call}};
    struct file_work w;

    if (call_header(call, "Content-Range") != NULL) {
        call_reply_error(call, 400, NULL, NULL,
                         "a file is written whole: Content-Range is for parts", NULL);
        return;
    }
    if (v1_file_work_begin(&w, call) == 0 && file_work_check_conditions(&w, path) == 0 &&
        file_work_write(&w, path, &write) == 0) {
        reply_written(&w, write.created ? 201 : 200, path, write.written);
    }
}

/* The path asked for, or the part's own file name. NULL: answered. */
static const char *upload_path(const struct file_form *form)
{
    const char *path = call_text(form->call, "path");

    if (path != NULL) {
        return path;
    }
    if (form->filename[0] == '\0') {
        file_form_refuse(form->call, "missing", "file needs a file name, or the query a path");
        return NULL;
    }
    size_t n = strlen(form->filename);
    if (strchr(form->filename, '/') != NULL || !str_is_utf8(form->filename, n) ||
        !api_format_check(API_FORMAT_RELATIVE_PATH, form->filename, n)) {
        file_form_refuse(form->call, "string_pattern_mismatch",
                         "the file name of file must be one name, not a path");
        return NULL;
    }
    return form->filename;
}

void api_v1_file_upload(struct api_call *call)
{
    struct file_form form;
    struct box_files_write write = {.source = {.next = file_form_next, .user = &form}};
    struct file_work w;

    const char *path = file_form_begin(&form, call, true) == 0 ? upload_path(&form) : NULL;
    if (path != NULL && v1_file_work_begin(&w, call) == 0 &&
        file_work_check_conditions(&w, path) == 0 && file_work_write(&w, path, &write) == 0) {
        reply_written(&w, 201, path, write.written);
    }
}

/* ---- changes ---- */

void api_v1_file_mkdir(struct api_call *call)
{
    const json_t *body = call_body(call);
    const char *path = json_string_value(json_object_get(body, "path"));
    bool parents = json_is_true(json_object_get(body, "parents"));
    struct file_work w;
    struct err e;

    if (v1_file_work_begin(&w, call) < 0) {
        return;
    }
    w.changed = true;
    if (box_files_mkdir(w.files, path, 0, parents, &e) < 0) {
        file_work_fail(&w, &e);
        return;
    }
    reply_entry(&w, 201, path);
}

void api_v1_file_move(struct api_call *call)
{
    const json_t *body = call_body(call);
    const char *from = json_string_value(json_object_get(body, "from"));
    const char *to = json_string_value(json_object_get(body, "to"));
    bool replace = json_is_true(json_object_get(body, "overwrite"));
    struct file_work w;
    struct err e;

    if (v1_file_work_begin(&w, call) < 0) {
        return;
    }
    w.changed = true;
    if (box_files_move(w.files, from, to, replace ? FILES_REPLACE : 0, &e) < 0) {
        file_work_fail(&w, &e);
        return;
    }
    reply_entry(&w, 200, to);
}

void api_v1_file_delete(struct api_call *call)
{
    const char *path = call_text(call, "path");
    struct file_work w;
    struct err e;

    if (v1_file_work_begin(&w, call) < 0 || file_work_check_conditions(&w, path) < 0) {
        return;
    }
    w.changed = true;
    if (box_files_delete(w.files, path, call_bool(call, "recursive", false), &e) < 0) {
        file_work_fail(&w, &e);
        return;
    }
    file_work_end(&w);
    call_reply_empty(call, 204);
}

void api_v1_file_download(struct api_call *call)
{
    const struct file_answer answer = {.path = call_text(call, "path"), .is_selective = true};
    struct file_work w;

    if (v1_file_work_begin(&w, call) == 0) {
        file_answer_send(&w, &answer);
    }
}
