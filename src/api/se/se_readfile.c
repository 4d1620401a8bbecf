/* SPDX-License-Identifier: Apache-2.0 */
/* /workspace/se: a part of a file as JSON, text or base64; see api/workspace_se.yaml. */
#include <openssl/evp.h>
#include <string.h>

#include "api/se/se.h"
#include "base/buf.h"
#include "base/str.h"

struct part {
    struct buf data;
    uint64_t size; /* of the whole file */
};

static void part_release(struct part *p)
{
    buf_release(&p->data);
}

static int on_info(void *user, const struct files_info *info)
{
    struct part *p = user;

    p->size = info->size;
    return 0;
}

static int on_data(void *user, const void *data, size_t n)
{
    struct part *p = user;

    return buf_add(&p->data, data, n);
}

static bool is_text_name(const char *name)
{
    static const char *const extensions[] = {
        "bat", "c",    "cfg", "conf", "cpp", "css",  "csv", "go",  "h",   "hpp",
        "htm", "html", "ini", "java", "js",  "json", "jsx", "log", "md",  "php",
        "py",  "r",    "rb",  "rs",   "rst", "sh",   "sql", "svg", "tex", "toml",
        "ts",  "tsv",  "tsx", "txt",  "xml", "yaml", "yml"};
    char extension[FILE_EXTENSION_SIZE];

    file_extension(name, extension);
    for (size_t i = 0; i < ARRAY_LEN(extensions); i++) {
        if (str_eq(extensions[i], extension)) {
            return true;
        }
    }
    return false;
}

/*
 * Bytes at the front that are whole characters; 0 when something else than a character cut in two
 * at the end is in the way. So text is read on at a character, and what is not text is told apart
 * from it.
 */
static size_t text_length(const struct buf *b)
{
    size_t n = 0;
    size_t len;

    while (n < b->len && (len = str_utf8_len(b->data + n, b->len - n)) > 0) {
        n += len;
    }
    return b->len - n < 4 ? n : 0;
}

static json_t *base64(const struct buf *b)
{
    AUTO_FREE char *text = calloc(b->len / 3 + 2, 4);

    if (text == NULL) {
        return NULL;
    }
    int n = EVP_EncodeBlock((unsigned char *)text, (const unsigned char *)b->data, (int)b->len);
    return json_stringn(text, (size_t)n);
}

static json_t *part_json(const struct part *p, const char *path, uint64_t offset)
{
    const struct buf *b = &p->data;
    uint64_t end = offset + b->len;
    size_t n = is_text_name(path) ? text_length(b) : 0;

    /* A character that the end of the file cuts in two is no text either. */
    bool is_text = is_text_name(path) && (b->len == 0 || (n > 0 && (n == b->len || end < p->size)));
    json_t *content = b->len == 0 ? json_string("")
                      : is_text   ? json_stringn(b->data, n)
                                  : base64(b);
    uint64_t next = b->len == 0 ? MIN(offset, p->size) : is_text ? offset + n : end;
    return json_pack("{s:o, s:b, s:I, s:I, s:b}", "content", content, "is_binary", !is_text,
                     "offset", (json_int_t)next, "size", (json_int_t)p->size, "is_eof",
                     next >= p->size);
}

void api_se_readfile(struct api_call *call)
{
    uint64_t offset = (uint64_t)call_int(call, "offset", 0);
    uint64_t most = (uint64_t)call_int(call, "buffer_size", 4096);
    AUTO(part_release) struct part part = {.data = BUF_INIT(most)};
    struct box_files_read read = {.offset = offset,
                                  .length = most,
                                  .on_info = on_info,
                                  .sink = {.on_data = on_data, .user = &part}};
    char path[FILES_PATH_MAX + 1];
    struct file_work w;
    struct err e;

    if (se_path(call_text(call, "path"), path) < 0 || path[0] == '\0') {
        se_reply_bad_path(call, "the path must be that of a file, not the workspace itself");
        return;
    }
    if (se_file_work_begin(&w, call) < 0) {
        return;
    }
    if (box_files_read(w.files, path, &read, &e) < 0) {
        file_work_fail(&w, &e);
        return;
    }
    file_work_end(&w);
    call_reply_json(call, 200, part_json(&part, path, offset));
}
