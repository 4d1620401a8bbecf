/* SPDX-License-Identifier: Apache-2.0 */
/* Requests whose answer comes in parts: listings, contents, archives; see box_files.h. */
#include <errno.h>
#include <string.h>

#include "base/attr.h"
#include "core/box_files_impl.h"
#include "wire/tar.h"

/* What is expected, and what has come. */
struct answer {
    const char *path;
    /* One part of it: 0 or -1. */
    int (*take)(struct box_files *f, struct answer *a, const struct files_head *head,
                const char *body, struct err *e);
    void *request;
    const struct box_files_sink *sink;
    uint64_t count; /* bytes or entries so far, */
    uint64_t most;  /* and the most that may come */
    struct files_info info;
    char *target; /* where it goes, or NULL */
    bool has_info;
};

/* The caller wants no more; the worker does not know yet and would go on. */
static int give_up(struct box_files *f, const struct answer *a, struct err *e)
{
    f->broken = true;
    return box_files_fail(f, FILES_ABORTED, ECANCELED, a->path, e);
}

static int answer_loop(struct box_files *f, struct answer *a, struct err *e)
{
    struct files_head head;
    const char *body;

    for (;;) {
        if (box_files_next(f, true, a->path, &head, &body, e) < 0) {
            return -1;
        }
        if (head.type == FILES_DONE) {
            return f->done.count == a->count ? 0 : box_files_broke_rules(f, e);
        }
        if (a->take(f, a, &head, body, e) < 0) {
            return -1;
        }
    }
}

static int ask(struct box_files *f, enum files_type type, const struct files_req *req,
               struct answer *a, struct err *e)
{
    int r = box_files_begin(f, type, req, a->path, NULL, e);

    if (r < 0) {
        return f->busy ? box_files_end(f, r) : r;
    }
    return box_files_end(f, answer_loop(f, a, e));
}

static int take_entries(struct box_files *f, struct answer *a, const struct files_head *head,
                        const char *body, struct err *e)
{
    struct box_files_list *list = a->request;
    struct files_entry entry;
    const char *name;
    size_t at = 0;
    int r;

    if (head->type != FILES_ENTRIES) {
        return box_files_broke_rules(f, e);
    }
    while ((r = files_msg_get_entry(body, head->len, &at, &entry, &name)) > 0) {
        bool is_below = memchr(name, '/', entry.name_len) != NULL;
        if (++a->count > a->most || (is_below && !list->recursive)) {
            return box_files_broke_rules(f, e);
        }
        if (list->on_entry(list->user, &entry, name, name + entry.name_len) != 0) {
            return give_up(f, a, e);
        }
    }
    return r < 0 ? box_files_broke_rules(f, e) : 0;
}

int box_files_list(struct box_files *f, const char *path, struct box_files_list *list,
                   struct err *e)
{
    uint64_t limit = list->limit != 0 ? MIN(list->limit, FILES_ENTRIES_MAX) : FILES_ENTRIES_MAX;
    struct files_req req = {.flags = (list->recursive ? FILES_RECURSIVE : 0) |
                                     (list->follow ? FILES_FOLLOW : 0),
                            .length = limit};
    struct answer a = {.path = path, .take = take_entries, .request = list, .most = limit};

    list->more = false;
    int r = ask(f, FILES_LIST, &req, &a, e);
    list->more = r == 0 && f->done.more != 0;
    return r;
}

static int take_info(struct box_files *f, struct answer *a, const struct files_head *head,
                     const char *body, struct err *e)
{
    if (head->type != FILES_INFO || a->has_info ||
        files_msg_get_info(body, head->len, &a->info, a->target) < 0) {
        return box_files_broke_rules(f, e);
    }
    a->has_info = true;
    return 0;
}

int box_files_stat(struct box_files *f, const char *path, bool follow, struct files_info *ret,
                   char target[FILES_PATH_MAX + 1], struct err *e)
{
    struct files_req req = {.flags = follow ? FILES_FOLLOW : 0};
    struct answer a = {.path = path, .take = take_info, .target = target};

    int r = ask(f, FILES_STAT, &req, &a, e);
    if (r == 0 && !a.has_info) {
        return box_files_broke_rules(f, e);
    }
    if (r == 0) {
        *ret = a.info;
    }
    return r;
}

static int take_data(struct box_files *f, struct answer *a, const struct files_head *head,
                     const char *body, struct err *e)
{
    if (head->type != FILES_DATA || head->len > a->most - a->count) {
        return box_files_broke_rules(f, e);
    }
    a->count += head->len;
    return a->sink->on_data(a->sink->user, body, head->len) != 0 ? give_up(f, a, e) : 0;
}

/* INFO, then the bytes that it promises. */
static int take_content(struct box_files *f, struct answer *a, const struct files_head *head,
                        const char *body, struct err *e)
{
    struct box_files_read *read = a->request;

    if (a->has_info) {
        return take_data(f, a, head, body, e);
    }
    if (take_info(f, a, head, body, e) < 0) {
        return -1;
    }
    if (a->info.kind != FILES_FILE) {
        return box_files_broke_rules(f, e);
    }
    uint64_t left = a->info.size - MIN(a->info.size, read->offset);
    a->most = read->length != 0 ? MIN(read->length, left) : left;
    bool refused = read->on_info != NULL && read->on_info(read->sink.user, &a->info) != 0;
    return refused ? give_up(f, a, e) : 0;
}

int box_files_read(struct box_files *f, const char *path, struct box_files_read *read,
                   struct err *e)
{
    struct files_req req = {.flags = read->follow ? FILES_FOLLOW : 0,
                            .offset = read->offset,
                            .length = read->length != 0 ? read->length : UINT64_MAX};
    struct answer a = {.path = path, .take = take_content, .request = read, .sink = &read->sink};

    int r = ask(f, FILES_READ, &req, &a, e);
    read->sent = a.count;
    if (r == 0 && (!a.has_info || a.count != a.most)) {
        return box_files_broke_rules(f, e);
    }
    return r;
}

int box_files_pack(struct box_files *f, const char *path, const struct box_files_sink *sink,
                   struct err *e)
{
    struct files_req req = {0};
    struct answer a = {.path = path, .take = take_data, .sink = sink, .most = UINT64_MAX};

    return ask(f, FILES_PACK, &req, &a, e);
}

int box_files_copy(struct box_files *f, const struct limits *of, const struct box_files_sink *sink,
                   bool *ret_more, struct err *e)
{
    struct files_req req = {.flags = FILES_COPY};
    struct answer a = {.path = "", .take = take_data, .sink = sink};

    a.most = of->disk_bytes + ((uint64_t)of->inodes + 1) * TAR_HEADER_MAX;
    int r = ask(f, FILES_PACK, &req, &a, e);
    *ret_more = r == 0 && f->done.more != 0;
    return r;
}
