/* SPDX-License-Identifier: Apache-2.0 */
/* /workspace/se: uploading, downloading, creating and listing files; see api/workspace_se.yaml. */
#include "api/se/se_files.h"

#include <string.h>
#include <sys/stat.h>

#include "api/files/file_answer.h"
#include "api/files/file_upload.h"
#include "api/se/se.h"
#include "base/str.h"

/* ---- lists ---- */

json_t *se_files_json(const struct file_list *list)
{
    json_t *files = json_array();
    char time[FILE_TIME_SIZE];

    for (size_t i = 0; i < list->n; i++) {
        const struct file_list_entry *entry = &list->entries[i];
        file_time_text(file_time_ms(&entry->info), time);
        (void)json_array_append_new(
            files, json_pack("{s:o, s:I, s:s, s:s}", "filename",
                             api_text_json(entry->name, strlen(entry->name)), "size",
                             (json_int_t)entry->info.size, "type", file_kind_word(entry->info.kind),
                             "modified_at", time));
    }
    return files;
}

void api_se_files(struct api_call *call)
{
    const char *text = call_text(call, "path");
    AUTO_FILE_LIST struct file_list list = {0};
    char path[FILES_PATH_MAX + 1];
    struct file_work w;

    if (se_path(text != NULL ? text : "", path) < 0) {
        se_reply_bad_path(call, "the path is too long");
        return;
    }
    if (se_file_work_begin(&w, call) == 0 &&
        file_list_read(&w, path, call_bool(call, "recursive", false), &list) == 0) {
        file_work_end(&w);
        call_reply_json(call, 200, json_pack("{s:o}", "files", se_files_json(&list)));
    }
}

/* ---- in ---- */

/* A path that must be that of a file. -1: answered. */
static int file_path(struct api_call *call, const char *text, char dst[static FILES_PATH_MAX + 1])
{
    if (se_path(text, dst) < 0 || dst[0] == '\0') {
        se_reply_bad_path(call, "the path must be that of a file, not the workspace itself");
        return -1;
    }
    return 0;
}

static void reply_written(struct file_work *w, const char *path, uint64_t size)
{
    file_work_end(w);
    call_reply_json(w->call, 200,
                    json_pack("{s:o, s:I}", "filename", api_text_json(path, strlen(path)), "size",
                              (json_int_t)size));
}

void api_se_upload(struct api_call *call)
{
    struct file_form form;
    struct box_files_write write = {.source = {.next = file_form_next, .user = &form}};
    char path[FILES_PATH_MAX + 1];
    struct file_work w;

    if (file_form_begin(&form, call, false) < 0) {
        return;
    }
    const char *asked = call_text(call, "filename");
    const char *name = asked != NULL ? asked : form.filename;
    if (name[0] == '\0') {
        call_reply_error(call, 400, "Sandbox.InvalidParameter", "The file has no name.",
                         "neither the query nor the part has a file name",
                         "Add filename to the query.");
        return;
    }
    if (!api_format_check(API_FORMAT_SE_PATH, name, strlen(name))) {
        se_reply_bad_path(call, "the file name leads out of the workspace or is too long");
        return;
    }
    if (file_path(call, name, path) == 0 && se_file_work_begin(&w, call) == 0 &&
        file_work_write(&w, path, &write) == 0) {
        reply_written(&w, path, write.written);
    }
}

struct text_source {
    const char *at;
    size_t left;
};

static ssize_t next_text(void *user, void *buf, size_t size)
{
    struct text_source *t = user;
    size_t n = MIN(t->left, size);

    memcpy(buf, t->at, n);
    t->at += n;
    t->left -= n;
    return (ssize_t)n;
}

int se_write_text(struct file_work *w, const char *path, const json_t *text, uint32_t mode)
{
    struct text_source source = {.at = json_string_value(text), .left = json_string_length(text)};
    struct box_files_write write = {.mode = mode, .source = {.next = next_text, .user = &source}};

    return file_work_write(w, path, &write);
}

void api_se_create(struct api_call *call)
{
    const json_t *body = call_body(call);
    const json_t *content = json_object_get(body, "content");
    /* The type stands for "as asked": permissions alone would be the default where they are 0. */
    uint32_t mode = S_IFREG | (uint32_t)json_integer_value(json_object_get(body, "mode"));
    char path[FILES_PATH_MAX + 1];
    struct file_work w;

    if (file_path(call, json_string_value(json_object_get(body, "filename")), path) == 0 &&
        se_file_work_begin(&w, call) == 0 && se_write_text(&w, path, content, mode) == 0) {
        reply_written(&w, path, json_string_length(content));
    }
}

/* ---- out ---- */

static void send_file(struct api_call *call, struct file_answer answer)
{
    char path[FILES_PATH_MAX + 1];
    struct file_work w;

    if (file_path(call, call_text(call, "path"), path) == 0 && se_file_work_begin(&w, call) == 0) {
        answer.path = path;
        file_answer_send(&w, &answer);
    }
}

void api_se_download(struct api_call *call)
{
    send_file(call, (struct file_answer){.type = "application/octet-stream", .is_selective = true});
}

void api_se_files_preview(struct api_call *call)
{
    static const char *const shown[] = {"html", "txt",  "md",  "json", "xml",  "csv", "png",
                                        "jpg",  "jpeg", "gif", "bmp",  "webp", "svg", "ico"};
    char extension[FILE_EXTENSION_SIZE];

    file_extension(call_text(call, "path"), extension);
    for (size_t i = 0; i < ARRAY_LEN(shown); i++) {
        if (str_eq(shown[i], extension)) {
            send_file(call, (struct file_answer){.is_shown = true, .is_selective = true});
            return;
        }
    }
    call_reply_error(call, 400, "Sandbox.InvalidParameter", "Files of this kind are not shown.",
                     "the name must end in .html .txt .md .json .xml .csv .png .jpg .jpeg .gif "
                     ".bmp .webp .svg or .ico",
                     "Download the file instead.");
}
