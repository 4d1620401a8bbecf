/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of file work, and tar streams: what is accepted, what is refused, what comes back. */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/attr.h"
#include "base/str.h"
#include "tap.h"
#include "wire/files_msg.h"
#include "wire/tar.h"

TEST(paths_are_relative_and_plain)
{
    static const char *const good[] = {"a",   "a/b", "...",    "a/...", ".a", "..a",
                                       "a..", "-rf", "\xff\n", "a b",   "\\", "a/b/c/d/e"};
    static const char *const bad[] = {"/",  "/a",  "a/",   "a//b", ".",
                                      "..", "./a", "a/..", "../a", "a/./b"};
    char text[FILES_PATH_MAX + 2];

    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        CASE("%s", good[i]);
        CHECK(files_msg_path_ok(good[i], strlen(good[i]), false));
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        CASE("%s", bad[i]);
        CHECK(!files_msg_path_ok(bad[i], strlen(bad[i]), true));
    }
    CHECK(files_msg_path_ok("", 0, true));
    CHECK(!files_msg_path_ok("", 0, false));
    CHECK(!files_msg_path_ok("a\0b", 3, false));
    memset(text, 'x', sizeof(text));
    CHECK(files_msg_path_ok(text, FILES_NAME_MAX, false));
    CHECK(!files_msg_path_ok(text, FILES_NAME_MAX + 1, false));
    for (size_t i = 1; i < sizeof(text); i += 2) {
        text[i] = '/';
    }
    CHECK(files_msg_path_ok(text, FILES_PATH_MAX - 1, false));
    CHECK(!files_msg_path_ok(text, FILES_PATH_MAX + 1, false));
}

/* Takes a request apart again. */
static int parse(const struct buf *b, struct files_req *req, char *path, char *to)
{
    struct files_head head;

    CHECK_INT(files_msg_get_head(b->data, false, &head), 0);
    CHECK_INT(b->len, sizeof(head) + head.len);
    return files_msg_get_req(&head, b->data + sizeof(head), req, path, to);
}

TEST(a_request_arrives_as_it_was_sent)
{
    AUTO_BUF struct buf b = BUF_INIT(FILES_BODY_MAX + sizeof(struct files_head));
    struct files_req sent = {.flags = FILES_REPLACE, .mode = 0640, .offset = 1, .length = 2};
    struct files_req got;
    char path[FILES_PATH_MAX + 1];
    char to[FILES_PATH_MAX + 1];

    CHECK_INT(files_msg_put_req(&b, FILES_MOVE, &sent, "a/b", "c"), 0);
    CHECK_INT(parse(&b, &got, path, to), 0);
    CHECK_STR(path, "a/b");
    CHECK_STR(to, "c");
    CHECK_INT(got.flags, FILES_REPLACE);
    CHECK_INT(got.mode, 0640);
    CHECK_INT(got.offset, 1);
    CHECK_INT(got.length, 2);
}

TEST(requests_that_are_not_ours_are_refused)
{
    static const struct {
        enum files_type type;
        uint32_t flags, mode;
        const char *path, *to;
    } rows[] = {
        {FILES_READ, FILES_FLAGS + 1, 0, "a", NULL},
        {FILES_WRITE, 0, 04755, "a", NULL},
        {FILES_READ, 0, 0, "", NULL},
        {FILES_DELETE, 0, 0, "", NULL},
        {FILES_READ, 0, 0, "../a", NULL},
        {FILES_MOVE, 0, 0, "a", NULL},
        {FILES_MOVE, 0, 0, "a", "/b"},
        {FILES_MOVE, 0, 0, "", "b"},
        {FILES_READ, 0, 0, "a", "b"},
        {FILES_DATA, 0, 0, "a", NULL},
    };
    char path[FILES_PATH_MAX + 1];
    char to[FILES_PATH_MAX + 1];

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_BUF struct buf b = BUF_INIT(FILES_BODY_MAX);
        struct files_req req = {.flags = rows[i].flags, .mode = rows[i].mode};
        struct files_req got = {.offset = 77};
        CASE("row %zu", i);
        CHECK_INT(files_msg_put_req(&b, rows[i].type, &req, rows[i].path, rows[i].to), 0);
        CHECK_INT(parse(&b, &got, path, to), -EBADMSG);
        CHECK_INT(got.offset, 77);
    }
}

TEST(heads_have_a_direction_and_a_bound)
{
    struct files_head head;

    for (uint32_t type = 0; type <= FILES_DONE + 1; type++) {
        bool empty =
            type == FILES_END || type == FILES_ABORT || type == FILES_READY || type == FILES_TICK;
        bool in = type >= FILES_LIST && type <= FILES_ABORT;
        bool out = type == FILES_DATA || (type >= FILES_READY && type <= FILES_DONE);
        struct files_head raw = {.type = type, .len = empty ? 0 : FILES_BODY_MAX};
        CASE("type %u", type);
        CHECK_INT(files_msg_get_head(&raw, false, &head), in ? 0 : -EBADMSG);
        CHECK_INT(files_msg_get_head(&raw, true, &head), out ? 0 : -EBADMSG);
        raw.len = empty ? 1 : FILES_BODY_MAX + 1;
        CHECK_INT(files_msg_get_head(&raw, false, &head), -EBADMSG);
        CHECK_INT(files_msg_get_head(&raw, true, &head), -EBADMSG);
        raw.len = 0;
        CHECK(empty || files_msg_get_head(&raw, in, &head) == -EBADMSG);
    }
}

TEST(a_batch_of_entries_is_full_before_it_is_too_large)
{
    AUTO_BUF struct buf b = BUF_INIT(FILES_BODY_MAX + sizeof(struct files_head));
    struct files_info info = {.kind = FILES_LINK,
                              .mode = 0777,
                              .size = 5,
                              .mtime_ns = -1,
                              .ctime_ns = INT64_MIN,
                              .inode = UINT64_MAX};
    struct files_entry entry;
    const char *name;
    size_t n = 0;
    size_t at = 0;

    CHECK_INT(files_msg_put(&b, FILES_ENTRIES, NULL, 0), 0);
    while (files_msg_put_entry(&b, &info, "some/name", "/to") == 0) {
        n++;
    }
    CHECK_INT(n, FILES_BODY_MAX / (sizeof(entry) + 9 + 3));
    const char *body = b.data + sizeof(struct files_head);
    size_t len = b.len - sizeof(struct files_head);
    while (files_msg_get_entry(body, len, &at, &entry, &name) > 0) {
        CHECK_INT(memcmp(&entry.info, &info, sizeof(info)), 0);
        CHECK_INT(entry.name_len, 9);
        CHECK_INT(entry.target_len, 3);
        CHECK_INT(memcmp(name, "some/name/to", 12), 0);
        n--;
    }
    CHECK_INT(n, 0);
    CHECK_INT(at, len);
}

TEST(entries_and_ends_that_no_worker_of_ours_sends_are_refused)
{
    struct files_entry good = {.info = {.kind = FILES_FILE}, .name_len = 1};
    struct {
        struct files_entry entry;
        char name[8];
    } raw = {.entry = good, .name = "a"};
    const size_t len = sizeof(good) + 1;
    struct files_entry entry;
    const char *name;
    size_t at = 0;

    CHECK_INT(files_msg_get_entry((char *)&raw, len, &at, &entry, &name), 1);
#define REFUSED(change)                                                                            \
    do {                                                                                           \
        raw.entry = good;                                                                          \
        at = 0;                                                                                    \
        change;                                                                                    \
        CASE("%s", #change);                                                                       \
        CHECK_INT(files_msg_get_entry((char *)&raw, len, &at, &entry, &name), -EBADMSG);           \
    } while (0)
    REFUSED(raw.entry.info.kind = 0);
    REFUSED(raw.entry.info.kind = FILES_OTHER + 1);
    REFUSED(raw.entry.info.mode = 01000);
    REFUSED(raw.entry.info.size = UINT64_MAX);
    REFUSED(raw.entry.name_len = 0);
    REFUSED(raw.entry.name_len = 2);
    REFUSED(raw.entry.name_len = UINT32_MAX);
    REFUSED(raw.entry.target_len = 1);
    REFUSED(raw.entry.target_len = UINT32_MAX);
    REFUSED(raw.name[0] = '/');
    REFUSED(raw.name[0] = '.');
    REFUSED(at = len + 1);

    struct files_done done = {.status = FILES_STATUSES};
    struct files_done got;
    CHECK_INT(files_msg_get_done((char *)&done, sizeof(done), &got, &name), -EBADMSG);
    done = (struct files_done){.sys_errno = -1};
    CHECK_INT(files_msg_get_done((char *)&done, sizeof(done), &got, &name), -EBADMSG);
    done = (struct files_done){.text_len = 1};
    CHECK_INT(files_msg_get_done((char *)&done, sizeof(done), &got, &name), -EBADMSG);
    done = (struct files_done){.more = 2};
    CHECK_INT(files_msg_get_done((char *)&done, sizeof(done), &got, &name), -EBADMSG);
    done = (struct files_done){.count = 1};
    CHECK_INT(files_msg_get_done((char *)&done, sizeof(done) - 1, &got, &name), -EBADMSG);
    CHECK_INT(files_msg_get_done((char *)&done, sizeof(done), &got, &name), 0);
}

TEST(only_links_lead_anywhere)
{
    static const struct {
        uint32_t kind;
        const char *target;
        size_t len;
        int want;
    } rows[] = {{FILES_LINK, "/etc", 4, 0},
                {FILES_LINK, "", 0, 0},
                {FILES_FILE, "", 0, 0},
                {FILES_FILE, "a", 1, -EBADMSG},
                {FILES_DIRECTORY, "a", 1, -EBADMSG},
                {FILES_LINK, "a\0b", 3, -EBADMSG}};
    char said[FILES_PATH_MAX + 1];
    char raw[sizeof(struct files_info) + FILES_PATH_MAX + 1];
    struct files_info info;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("row %zu", i);
        info = (struct files_info){.kind = rows[i].kind};
        memcpy(raw, &info, sizeof(info));
        memcpy(raw + sizeof(info), rows[i].target, rows[i].len);
        CHECK_INT(files_msg_get_info(raw, sizeof(info) + rows[i].len, &info, said), rows[i].want);
        CHECK(rows[i].want < 0 || str_eq(said, rows[i].target));
        CHECK_INT(files_msg_get_info(raw, sizeof(info) + rows[i].len, &info, NULL), rows[i].want);
    }
    info = (struct files_info){.kind = FILES_LINK};
    memset(raw, 'x', sizeof(raw));
    memcpy(raw, &info, sizeof(info));
    CHECK_INT(files_msg_get_info(raw, sizeof(raw) - 1, &info, said), 0);
    CHECK_INT(strlen(said), FILES_PATH_MAX);
    CHECK_INT(files_msg_get_info(raw, sizeof(raw), &info, said), -EBADMSG);
    CHECK_INT(files_msg_get_info(raw, sizeof(info) - 1, &info, said), -EBADMSG);
}

TEST(every_status_has_a_name_and_errors_have_a_status)
{
    for (int i = 0; i <= FILES_PROTOCOL; i++) {
        CHECK(!str_eq(files_msg_status_name((enum files_status)i), "unknown"));
    }
    CHECK_STR(files_msg_status_name((enum files_status)(FILES_PROTOCOL + 1)), "unknown");
    CHECK_INT(files_msg_status_of(0), FILES_OK);
    CHECK_INT(files_msg_status_of(ENOENT), FILES_NOT_FOUND);
    CHECK_INT(files_msg_status_of(ENOSPC), FILES_NO_SPACE);
    CHECK_INT(files_msg_status_of(EFBIG), FILES_TOO_LARGE);
    CHECK_INT(files_msg_status_of(EXDEV), FILES_DENIED);
    CHECK_INT(files_msg_status_of(EIO), FILES_FAILED);
}

/* ---- tar ---- */

/* Everything that a reader says, as text. */
static int note_entry(void *user, const struct tar_entry *entry)
{
    return buf_printf(user, "%c %s>%s %o %llu %lld\n", entry->kind, entry->name, entry->link,
                      entry->mode, (unsigned long long)entry->size, (long long)entry->mtime);
}

static int note_data(void *user, const char *data, size_t n)
{
    return buf_add(user, data, n);
}

static int note_end(void *user)
{
    return buf_add_str(user, "|\n");
}

static int read_archive(const struct buf *archive, size_t portion, struct buf *notes)
{
    static const struct tar_events events = {note_entry, note_data, note_end};
    struct tar_reader reader;
    int r = 0;

    notes->len = 0;
    tar_reader_init(&reader, &events, notes);
    for (size_t at = 0; at < archive->len && r == 0; at += portion) {
        r = tar_reader_feed(&reader, archive->data + at, MIN(portion, archive->len - at));
    }
    if (r == 0) {
        r = tar_reader_finish(&reader);
    }
    CHECK(r == 0 || reader.problem != NULL);
    tar_reader_release(&reader);
    return r;
}

static void add(struct buf *b, const struct tar_entry *entry, const char *data)
{
    static const char zeros[TAR_BLOCK];
    size_t n = strlen(data);

    CHECK_INT(tar_put_header(b, entry), 0);
    CHECK_INT(buf_add(b, data, n), 0);
    CHECK_INT(buf_add(b, zeros, -n % TAR_BLOCK), 0);
    CHECK_INT(b->len % TAR_BLOCK, 0);
}

TEST(what_the_writer_writes_the_reader_reads_in_any_portions)
{
    AUTO_BUF struct buf archive = BUF_INIT(1 << 20);
    AUTO_BUF struct buf notes = BUF_INIT(1 << 20);
    AUTO_BUF struct buf want = BUF_INIT(1 << 20);
    char name[FILES_PATH_MAX + 1];
    size_t lengths[] = {99, 100, 101, 4096};

    add(&archive, &(struct tar_entry){TAR_FILE, "f", "", 0644, 5, 1700000000}, "12345");
    add(&archive, &(struct tar_entry){TAR_FILE, "empty", "", 0600, 0, 0}, "");
    add(&archive, &(struct tar_entry){TAR_DIRECTORY, "d/e", "", 0755, 0, -5}, "");
    add(&archive, &(struct tar_entry){TAR_LINK, "d/l", "../f", 0777, 0, 1}, "");
    CHECK_INT(buf_printf(&want, "0 f> 644 5 1700000000\n12345|\n0 empty> 600 0 0\n|\n"
                                "5 d/e> 755 0 -5\n2 d/l>../f 777 0 1\n"),
              0);
    for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
        memset(name, i == 2 ? '\xff' : 'n', sizeof(name)); /* also bytes that are no UTF-8 */
        for (size_t k = 200; k < lengths[i]; k += 200) {
            name[k] = '/';
        }
        name[lengths[i]] = '\0';
        add(&archive, &(struct tar_entry){TAR_FILE, name, "", 0644, 1, 1}, "x");
        add(&archive, &(struct tar_entry){TAR_LINK, "to", name, 0777, 0, 1}, "");
        CHECK_INT(buf_printf(&want, "0 %s> 644 1 1\nx|\n2 to>%s 777 0 1\n", name, name), 0);
    }
    CHECK_INT(tar_put_end(&archive), 0);
    for (size_t portion = 1; portion <= archive.len; portion = portion * 3 + 1) {
        CASE("%zu bytes at a time", portion);
        CHECK_INT(read_archive(&archive, portion, &notes), 0);
        CHECK_STR(notes.data, want.data);
    }
}

TEST(sizes_beyond_eight_gigabytes_are_in_an_extended_header)
{
    static const struct tar_events events = {note_entry, note_data, note_end};
    AUTO_BUF struct buf archive = BUF_INIT(1 << 20);
    AUTO_BUF struct buf notes = BUF_INIT(1 << 20);
    struct tar_reader reader;

    CHECK_INT(tar_put_header(&archive,
                             &(struct tar_entry){TAR_FILE, "big", "", 0644, (uint64_t)9 << 30, 1}),
              0);
    CHECK(memmem(archive.data, archive.len, "size=9663676416\n", 16) != NULL);
    tar_reader_init(&reader, &events, &notes);
    CHECK_INT(tar_reader_feed(&reader, archive.data, archive.len), 0);
    CHECK_STR(notes.data, "0 big> 644 9663676416 1\n");
    CHECK_INT(reader.left, (int64_t)9 << 30);
    tar_reader_release(&reader);
}

TEST(cut_or_damaged_archives_are_refused)
{
    AUTO_BUF struct buf archive = BUF_INIT(1 << 20);
    AUTO_BUF struct buf notes = BUF_INIT(1 << 20);
    AUTO_BUF struct buf copy = BUF_INIT(1 << 20);

    add(&archive, &(struct tar_entry){TAR_FILE, "f", "", 0644, 5, 1}, "12345");
    CHECK_INT(tar_put_end(&archive), 0);
    for (size_t n = 0; n < 3 * TAR_BLOCK; n += 97) {
        copy.len = 0;
        CASE("%zu bytes", n);
        CHECK_INT(buf_add(&copy, archive.data, n), 0);
        CHECK_INT(read_archive(&copy, 1000, &notes), -EBADMSG);
    }
    for (size_t at = 0; at < TAR_BLOCK; at++) {
        if (at == 155) {
            continue; /* what stands behind the sum says nothing */
        }
        copy.len = 0;
        CASE("byte %zu", at);
        CHECK_INT(buf_add(&copy, archive.data, archive.len), 0);
        copy.data[at] ^= 0x15;
        CHECK_INT(read_archive(&copy, 1000, &notes), -EBADMSG);
    }
    CHECK_INT(buf_add_str(&archive, "garbage"), 0);
    CHECK_INT(read_archive(&archive, 1000, &notes), -EBADMSG);
}

/* A header whose type and data are anything; the writer makes the sum. */
static int read_one(char type, const char *name, const char *link, const char *data)
{
    AUTO_BUF struct buf archive = BUF_INIT(1 << 20);
    AUTO_BUF struct buf notes = BUF_INIT(1 << 20);

    add(&archive, &(struct tar_entry){(enum tar_kind)type, name, link, 0644, strlen(data), 1},
        data);
    if (strchr("xgLK", type) != NULL) {
        add(&archive, &(struct tar_entry){TAR_FILE, "next", "", 0644, 0, 1}, "");
    }
    CHECK_INT(tar_put_end(&archive), 0);
    return read_archive(&archive, 1000, &notes);
}

TEST(what_leads_out_or_is_unknown_is_refused)
{
    static const struct {
        char type;
        const char *name, *link, *data;
        int want;
    } rows[] = {
        {'0', "/a", "", "", -EBADMSG},
        {'0', "../a", "", "", -EBADMSG},
        {'0', "a/../b", "", "", -EBADMSG},
        {'0', "a//b", "", "", -EBADMSG},
        {'0', "a/", "", "", -EBADMSG},
        {'0', "", "", "", -EBADMSG},
        {'0', ".", "", "", -EBADMSG},
        {'0', "./a", "", "", 0},
        {'5', ".", "", "", 0},
        {'5', "a", "", "data", -EBADMSG},
        {'2', "a", "", "", -EBADMSG},
        {'2', "a", "/b", "", -EBADMSG},
        {'2', "a", "..", "", -EBADMSG},
        {'2', "a", "b/../../c", "", -EBADMSG},
        {'2', "a/b", "../..", "", -EBADMSG},
        {'2', "a/b", "..", "", 0},
        {'2', "a/b", "../c/./d/..", "", 0},
        {'1', "a", "../b", "", -EBADMSG},
        {'1', "a", "/b", "", -EBADMSG},
        {'1', "a", "", "", -EBADMSG},
        {'1', "a", "./b", "", 0},
        {'3', "a", "", "", -EBADMSG},
        {'4', "a", "", "", -EBADMSG},
        {'6', "a", "", "", -EBADMSG},
        {'7', "a", "", "", -EBADMSG},
        {'S', "a", "", "", -EBADMSG},
        {'L', "x", "", "long/name", 0},
        {'L', "x", "", "../name", -EBADMSG},
        {'L', "x", "", "", -EBADMSG},
        {'x', "x", "", "12 path=a/b\n", 0},
        {'x', "x", "", "12 path=../\n", -EBADMSG},
        {'x', "x", "", "11 path=a/b\n", -EBADMSG},
        {'x', "x", "", "13 path=a/b\n", -EBADMSG},
        {'x', "x", "", "path=a/b\n", -EBADMSG},
        {'x', "x", "", "10 size=0\n", 0},
        {'x', "x", "", "11 size=-1\n", -EBADMSG},
        {'x', "x", "", "13 mtime=5.5\n", 0},
        {'x', "x", "", "12 mtime=-5\n", 0},
        {'x', "x", "", "11 mtime=x\n", -EBADMSG},
        {'x', "x", "", "22 GNU.sparse.major=1\n", -EBADMSG},
        {'x', "x", "", "19 SCHILY.dev=12345\n", -EBADMSG},
        {'x', "x", "", "20 SCHILY.dev=12345\n", 0},
        {'g', "x", "", "12 path=a/b\n", -EBADMSG},
        {'g', "x", "", "14 comment=ab\n", 0},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("row %zu: %c %s %s %s", i, rows[i].type, rows[i].name, rows[i].link, rows[i].data);
        CHECK_INT(read_one(rows[i].type, rows[i].name, rows[i].link, rows[i].data), rows[i].want);
    }
}
