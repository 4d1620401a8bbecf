/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files as answers: conditions, one range, and data as they come out of the box; see file_answer.h.
 */
#include "api/files/file_answer.h"

#include <inttypes.h>
#include <string.h>

#include "base/str.h"
#include "http/date.h"
#include "http/disposition.h"

#define AT_ONCE 65536 /* bytes that the kernel takes without waiting for the client */
#define TRIES 5       /* for a file that is replaced between its description and its data */

void file_answer_fields(struct api_call *call, const char *name, bool is_shown)
{
    char disposition[HTTP_DISPOSITION_MAX];

    http_disposition(disposition, name, is_shown);
    call_add_header(call, "Content-Disposition", disposition);
    call_add_header(call, "X-Content-Type-Options", "nosniff");
    call_add_header(call, "Content-Security-Policy",
                    "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'");
}

void file_answer_break(struct api_call *call)
{
    if (call_is_gone(call)) {
        call_end(call);
    }
    /* Otherwise it stays open: an answer that its handler leaves open is broken off. */
}

struct sending {
    struct file_work *work;
    const struct file_answer *answer;
    struct files_info info;
    char etag[HTTP_ETAG_SIZE];
    struct http_selection part;
    bool is_head;
    bool has_begun;
    bool has_changed; /* it is not the file that was described */
};

static void choose(struct sending *s, const struct files_info *info)
{
    const struct api_call *call = s->work->call;
    struct http_conditions conditions = {0};

    if (s->answer->is_selective) {
        conditions = (struct http_conditions){
            .if_match = call_header(call, "If-Match"),
            .if_none_match = call_header(call, "If-None-Match"),
            .if_modified_since = call_header(call, "If-Modified-Since"),
            .if_unmodified_since = call_header(call, "If-Unmodified-Since"),
            .if_range = call_header(call, "If-Range"),
            .range = s->is_head ? NULL : call_header(call, "Range"),
        };
    }
    s->info = *info;
    file_etag(info, s->etag);
    s->part = http_select(&conditions, info->size, s->etag, (time_t)(file_time_ms(info) / 1000));
}

static void add_fields(const struct sending *s)
{
    struct api_call *call = s->work->call;
    char value[96];

    call_add_header(call, "ETag", s->etag);
    http_date_format((time_t)(file_time_ms(&s->info) / 1000), value);
    call_add_header(call, "Last-Modified", value);
    if (s->answer->is_selective) {
        call_add_header(call, "Accept-Ranges", "bytes");
    }
    if (s->part.status == 206) {
        (void)str_format(value, sizeof(value), "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64,
                         s->part.first, s->part.first + s->part.length - 1, s->info.size);
        call_add_header(call, "Content-Range", value);
    } else if (s->part.status == 416) {
        (void)str_format(value, sizeof(value), "bytes */%" PRIu64, s->info.size);
        call_add_header(call, "Content-Range", value);
    }
}

static void begin(struct sending *s)
{
    const struct file_answer *a = s->answer;
    const char *slash = strrchr(a->path, '/');

    add_fields(s);
    file_answer_fields(s->work->call, slash != NULL ? slash + 1 : a->path, a->is_shown);
    call_begin(s->work->call, s->part.status,
               a->type != NULL ? a->type : file_content_type(a->path), s->part.length);
    s->has_begun = true;
    if (s->part.length > AT_ONCE) {
        file_work_read_on(s->work);
    }
}

/*
 * The file that is really open may be another one than the one described before, or longer by now.
 */
static int on_info(void *user, const struct files_info *info)
{
    struct sending *s = user;
    const struct http_selection planned = s->part;

    choose(s, info);
    bool is_same_part = planned.first == s->part.first && planned.length == s->part.length;
    if (planned.status != s->part.status || (planned.status != 200 && !is_same_part)) {
        s->has_changed = true;
        return -1;
    }
    begin(s);
    return 0;
}

static int on_data(void *user, const void *data, size_t n)
{
    const struct sending *s = user;

    return call_write(s->work->call, data, n);
}

/* Everything that needs no data. True: answered. */
static bool answer_without_data(struct sending *s)
{
    struct file_work *w = s->work;
    char detail[64];

    switch (s->part.status) {
    case 304:
        file_work_end(w);
        add_fields(s);
        call_reply_empty(w->call, 304);
        return true;
    case 412:
        file_work_refuse_condition(w);
        return true;
    case 416:
        file_work_end(w);
        add_fields(s);
        (void)str_format(detail, sizeof(detail), "the file has %" PRIu64 " bytes", s->info.size);
        call_reply_error(w->call, 416, NULL, "The range lies outside the file.", detail,
                         "Ask for bytes that exist, or leave out Range.");
        return true;
    default:
        return false;
    }
}

/* 0: answered, also by breaking off; -1: the file is another one now. */
static int send_data(struct sending *s)
{
    struct err e;
    struct box_files_read read = {
        /* HEAD opens the file as well, since GET may find that it cannot be read. */
        .offset = s->is_head ? INT64_MAX : s->part.first,
        .length = s->part.status == 206 ? s->part.length : 0,
        .on_info = on_info,
        .sink = {.on_data = on_data, .user = s},
    };

    if (box_files_read(s->work->files, s->answer->path, &read, &e) == 0) {
        file_work_end(s->work);
        call_end(s->work->call);
        return 0;
    }
    if (s->has_begun) {
        file_work_end(s->work);
        file_answer_break(s->work->call);
        return 0;
    }
    if (s->has_changed) {
        return -1;
    }
    file_work_fail(s->work, &e);
    return 0;
}

void file_answer_send(struct file_work *w, const struct file_answer *answer)
{
    struct sending s = {.work = w, .answer = answer, .is_head = call_is_head(w->call)};
    struct files_info info;
    struct err e;

    for (int i = 0; i < TRIES; i++) {
        if (box_files_stat(w->files, answer->path, false, &info, NULL, &e) < 0) {
            file_work_fail(w, &e);
            return;
        }
        if (info.kind != FILES_FILE) {
            file_work_refuse(w, info.kind == FILES_DIRECTORY ? FILES_IS_A_DIRECTORY : FILES_DENIED,
                             "only regular files can be downloaded");
            return;
        }
        s.has_changed = false;
        choose(&s, &info);
        if (answer_without_data(&s) || send_data(&s) == 0 || file_work_again(w) < 0) {
            return;
        }
    }
    file_work_refuse(w, FILES_CHANGED, "the file is replaced faster than it can be read");
}
