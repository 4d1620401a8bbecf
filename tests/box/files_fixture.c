/* SPDX-License-Identifier: Apache-2.0 */
/* File work for tests; see files_fixture.h. */
#include "files_fixture.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void fixture_files_close(struct box_files **f)
{
    box_files_close(*f);
}

struct box_files *fixture_files(struct husk_session *s)
{
    struct err e = {0};
    struct box_files *f = box_files_open(s->inner, &e);

    if (f == NULL) {
        tap_fail(__FILE__, __LINE__, "box_files_open: %s", e.msg);
    }
    return f;
}

static int collect(void *user, const void *data, size_t n)
{
    return buf_add(user, data, n);
}

struct box_files_sink fixture_into(struct buf *b)
{
    *b = BUF_INIT(FIXTURE_CONTENT_MAX);
    return (struct box_files_sink){.on_data = collect, .user = b};
}

static ssize_t hand_out(void *user, void *to, size_t size)
{
    struct fixture_bytes *bytes = user;
    size_t n = MIN(size, bytes->left);

    n = bytes->portion != 0 ? MIN(n, bytes->portion) : n;
    memcpy(to, bytes->data, n);
    bytes->data += n;
    bytes->left -= n;
    return (ssize_t)n;
}

struct box_files_source fixture_from(struct fixture_bytes *bytes)
{
    return (struct box_files_source){.next = hand_out, .user = bytes};
}

int fixture_write(struct box_files *f, const char *path, const char *text, struct err *e)
{
    struct fixture_bytes bytes = {.data = text, .left = strlen(text)};
    struct box_files_write w = {.parents = true, .source = fixture_from(&bytes)};

    return box_files_write(f, path, &w, e);
}

int fixture_read(struct box_files *f, const char *path, bool follow, struct buf *ret, struct err *e)
{
    struct box_files_read r = {.follow = follow, .sink = fixture_into(ret)};

    int done = box_files_read(f, path, &r, e);
    if (ret->data == NULL) {
        CHECK_INT(buf_add(ret, "", 0), 0);
        CHECK_INT(buf_reserve(ret, 1), 0);
        ret->data[0] = '\0';
    }
    return done;
}

int fixture_unpack(struct box_files *f, const char *path, const struct buf *archive, struct err *e)
{
    struct fixture_bytes bytes = {.data = archive->data, .left = archive->len};
    struct box_files_unpack u = {.source = fixture_from(&bytes)};

    return box_files_unpack(f, path, &u, e);
}

struct lines {
    char *line[256];
    size_t n;
};

static int take_line(void *user, const struct files_entry *entry, const char *name,
                     const char *target)
{
    static const char kinds[] = "?fdlo";
    const struct files_info *info = &entry->info;
    struct lines *lines = user;
    AUTO_BUF struct buf b = BUF_INIT(8192);
    char shown[4096];

    CHECK(lines->n < ARRAY_LEN(lines->line));
    CHECK(info->mtime_ns > 1500000000000000000);
    str_printable(shown, sizeof(shown), name, entry->name_len);
    CHECK_INT(
        buf_printf(&b, "%c %03o %" PRIu64 " %s", kinds[info->kind], info->mode, info->size, shown),
        0);
    if (entry->target_len > 0) {
        str_printable(shown, sizeof(shown), target, entry->target_len);
        CHECK_INT(buf_printf(&b, "->%s", shown), 0);
    }
    lines->line[lines->n++] = TAKE_PTR(b.data);
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(strrchr(*(char *const *)a, ' '), strrchr(*(char *const *)b, ' '));
}

int fixture_list(struct box_files *f, const char *path, bool recursive, struct buf *ret,
                 struct err *e)
{
    struct lines lines = {.n = 0};
    struct box_files_list list = {.recursive = recursive, .on_entry = take_line, .user = &lines};

    *ret = BUF_INIT(FIXTURE_CONTENT_MAX);
    CHECK_INT(buf_add_str(ret, ""), 0);
    int r = box_files_list(f, path, &list, e);
    qsort(lines.line, lines.n, sizeof(lines.line[0]), by_name);
    for (size_t i = 0; i < lines.n; i++) {
        CHECK_INT(buf_printf(ret, "%s%s", i > 0 ? "\n" : "", lines.line[i]), 0);
        free(lines.line[i]);
    }
    CHECK(!list.more);
    return r;
}

int fixture_count_entry(void *user, const struct files_entry *entry, const char *name,
                        const char *target)
{
    size_t *n = user;

    (void)target;
    CHECK(entry->name_len <= FILES_PATH_MAX && name[0] != '/');
    ++*n;
    return 0;
}
