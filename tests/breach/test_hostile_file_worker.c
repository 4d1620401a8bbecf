/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hostile file worker: the process in a box that serves file requests to huskd. Whatever it
 * answers, the request fails with a typed error, the connection is given up, nothing beyond what
 * was asked for is handed on, and a worker of another box is served as if nothing had happened.
 *
 * Answers to a plain download are in box/test_box_files_protocol.c.
 */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "file_worker_fixture.h"
#include "wire/tar.h"

#define TEXT "hello"
#define COPY_DISK ((uint64_t)1 << 20) /* limits of the box whose workspace is copied */
#define COPY_INODES 8

static int list(struct box_files *f, bool recursive, uint64_t limit, struct err *e)
{
    size_t n = 0;
    struct box_files_list l = {
        .recursive = recursive, .limit = limit, .on_entry = fixture_count_entry, .user = &n};
    int r = box_files_list(f, "", &l, e);

    CHECK(limit == 0 || n <= limit);
    return r;
}

static int ask_list(struct box_files *f, struct err *e)
{
    return list(f, false, 0, e);
}

static int ask_tree(struct box_files *f, struct err *e)
{
    return list(f, true, 0, e);
}

static int ask_two(struct box_files *f, struct err *e)
{
    return list(f, false, 2, e);
}

static int ask_stat(struct box_files *f, struct err *e)
{
    struct files_info info;
    char target[FILES_PATH_MAX + 1];

    return box_files_stat(f, "f", false, &info, target, e);
}

static int ask_read(struct box_files *f, struct err *e)
{
    AUTO_BUF struct buf got = BUF_INIT(0);

    return fixture_read(f, "f", false, &got, e);
}

/* Two bytes from the third on. */
static int ask_part(struct box_files *f, struct err *e)
{
    AUTO_BUF struct buf got = BUF_INIT(0);
    struct box_files_read read = {.offset = 2, .length = 2, .sink = fixture_into(&got)};
    int r = box_files_read(f, "f", &read, e);

    CHECK(got.len <= 2);
    return r;
}

static int ask_write(struct box_files *f, struct err *e)
{
    return fixture_write(f, "f", TEXT, e);
}

static int ask_mkdir(struct box_files *f, struct err *e)
{
    return box_files_mkdir(f, "d", 0, false, e);
}

static int ask_unpack(struct box_files *f, struct err *e)
{
    struct fixture_bytes bytes = {.data = TEXT, .left = strlen(TEXT)};
    struct box_files_unpack unpack = {.source = fixture_from(&bytes), .limit = 3};

    return box_files_unpack(f, "", &unpack, e);
}

static int ask_copy(struct box_files *f, struct err *e)
{
    AUTO_BUF struct buf got = BUF_INIT(0);
    const struct limits of = {.disk_bytes = COPY_DISK, .inodes = COPY_INODES};
    struct box_files_sink sink = fixture_into(&got);
    bool more;
    int r = box_files_copy(f, &of, &sink, &more, e);

    CHECK(got.len <= COPY_DISK + (uint64_t)(COPY_INODES + 1) * TAR_HEADER_MAX);
    return r;
}

#define WORKER_FAILS(name, request, want)                                                          \
    static void act_##name(int sock);                                                              \
    TEST(a_worker_##name)                                                                          \
    {                                                                                              \
        worker_try(act_##name, request, want);                                                     \
    }                                                                                              \
    static void act_##name(int sock)
#define WORKER(name, request) WORKER_FAILS(name, request, "protocol_violation")

/* ---- names ---- */

#define WORKER_NAMES(name, request, text)                                                          \
    WORKER(name, request)                                                                          \
    {                                                                                              \
        worker_say_name(sock, text, sizeof(text) - 1);                                             \
    }

WORKER_NAMES(names_a_folder_above, ask_tree, "../../etc/passwd")
WORKER_NAMES(names_the_folder_above, ask_list, "..")
WORKER_NAMES(names_an_absolute_path, ask_tree, "/etc/passwd")
WORKER_NAMES(names_a_path_in_a_flat_listing, ask_list, "a/b")
WORKER_NAMES(names_a_dot_on_the_way, ask_tree, "a/./b")
WORKER_NAMES(hides_the_end_of_a_name, ask_list, "a\0b")
WORKER_NAMES(has_an_entry_without_a_name, ask_list, "")

WORKER(has_a_name_longer_than_names_are, ask_list)
{
    char name[FILES_NAME_MAX + 1];

    memset(name, 'a', sizeof(name));
    worker_say_name(sock, name, sizeof(name));
}

/* ---- entries ---- */

#define WORKER_LISTS(name, text, ...)                                                              \
    WORKER(name, ask_list)                                                                         \
    {                                                                                              \
        worker_say_entry(sock, (struct files_entry){__VA_ARGS__}, text, sizeof(text) - 1);         \
    }

WORKER_LISTS(has_a_name_beyond_its_message, "a", .name_len = UINT32_MAX)
WORKER_LISTS(has_lengths_that_overflow, "ab", .name_len = 2, .target_len = UINT32_MAX - 1)
WORKER_LISTS(has_a_file_that_leads_away, "a/etc", .name_len = 1, .target_len = 4)
WORKER_LISTS(has_a_kind_that_there_is_not, "a", .info.kind = 5, .name_len = 1)
WORKER_LISTS(shows_a_set_uid_file, "a", .info.mode = 04755, .name_len = 1)

/* ---- amounts ---- */

WORKER(lists_more_than_was_asked_for, ask_two)
{
    const struct {
        struct files_entry entry;
        char name;
    } __attribute__((packed)) one = {{.info.kind = FILES_FILE, .name_len = 1}, 'a'};

    for (int i = 0; i < 3; i++) {
        worker_say(sock, FILES_ENTRIES, &one, sizeof(one));
    }
    worker_say_done(sock, 3);
}

WORKER(lists_without_end, ask_two)
{
    const struct files_entry entry = {.info.kind = FILES_FILE, .name_len = 1};
    char body[100 * (sizeof(entry) + 1)];

    for (size_t i = 0; i < 100; i++) {
        memcpy(body + i * (sizeof(entry) + 1), &entry, sizeof(entry));
        body[i * (sizeof(entry) + 1) + sizeof(entry)] = 'a';
    }
    for (int i = 0; i < 100; i++) {
        worker_say(sock, FILES_ENTRIES, body, sizeof(body));
    }
}

WORKER(counts_entries_that_never_came, ask_list)
{
    worker_say_done(sock, UINT64_MAX);
}

WORKER(sends_more_than_a_part, ask_part)
{
    worker_say_info(sock, (struct files_info){.kind = FILES_FILE, .size = 5});
    worker_say(sock, FILES_DATA, "llo", 3);
}

WORKER(has_a_size_that_overflows, ask_part)
{
    worker_say_info(sock, (struct files_info){.kind = FILES_FILE, .size = (uint64_t)INT64_MAX + 1});
}

WORKER(has_a_file_that_shrinks, ask_part)
{
    worker_say_info(sock, (struct files_info){.kind = FILES_FILE, .size = 1});
    worker_say(sock, FILES_DATA, "ll", 2);
}

WORKER(serves_a_folder_as_a_file, ask_read)
{
    worker_say_info(sock, (struct files_info){.kind = FILES_DIRECTORY, .size = 5});
    worker_say(sock, FILES_DATA, TEXT, strlen(TEXT));
    worker_say_done(sock, strlen(TEXT));
}

WORKER(fills_the_disk_with_a_copy, ask_copy)
{
    static char body[FILES_BODY_MAX];
    uint64_t sent = 0;

    while (sent < 64 * COPY_DISK) {
        worker_say(sock, FILES_DATA, body, sizeof(body));
        sent += sizeof(body);
    }
}

WORKER(miscounts_a_copy, ask_copy)
{
    worker_say(sock, FILES_DATA, TEXT, strlen(TEXT));
    worker_say_done(sock, 0);
}

/* ---- answers that belong elsewhere ---- */

WORKER(says_twice_what_a_file_is, ask_stat)
{
    worker_say_info(sock, (struct files_info){.kind = FILES_FILE});
    worker_say_info(sock, (struct files_info){.kind = FILES_FILE});
}

WORKER(says_nothing_of_a_file, ask_stat)
{
    worker_say_done(sock, 0);
}

WORKER(leads_further_than_paths_are_long, ask_stat)
{
    char body[sizeof(struct files_info) + FILES_PATH_MAX + 1];
    const struct files_info info = {.kind = FILES_LINK};

    memset(body, 'a', sizeof(body));
    memcpy(body, &info, sizeof(info));
    worker_say(sock, FILES_INFO, body, sizeof(body));
}

WORKER(is_ready_again, ask_mkdir)
{
    worker_say(sock, FILES_READY, NULL, 0);
}

WORKER(sends_data_for_an_upload, ask_write)
{
    worker_take_all(sock);
    worker_say(sock, FILES_DATA, TEXT, strlen(TEXT));
}

WORKER(has_written_more_than_it_got, ask_write)
{
    worker_take_all(sock);
    worker_say_done(sock, strlen(TEXT) + 1);
}

WORKER(has_unpacked_more_than_it_may, ask_unpack)
{
    worker_take_all(sock);
    worker_say_done(sock, 4);
}

WORKER(fails_in_a_way_that_there_is_not, ask_mkdir)
{
    const struct files_done done = {.status = FILES_LOST};

    worker_say(sock, FILES_DONE, &done, sizeof(done));
}

WORKER(fails_with_a_text_beyond_its_message, ask_mkdir)
{
    const struct files_done done = {.status = FILES_DENIED, .text_len = FILES_PATH_MAX};

    worker_say(sock, FILES_DONE, &done, sizeof(done));
}

WORKER_FAILS(begins_a_message_that_never_ends, ask_stat, "timeout")
{
    const struct files_head head = {.type = FILES_INFO, .len = FILES_BODY_MAX};

    (void)fd_send(sock, &head, sizeof(head), NULL, 0, 0);
}

WORKER_FAILS(dies_in_the_middle, ask_list, "worker_lost")
{
    worker_say(sock, FILES_TICK, NULL, 0);
    shutdown(sock, SHUT_RDWR);
}

static void fail_with_escapes(int sock)
{
    struct {
        struct files_done done;
        char text[8];
    } raw = {.done = {.status = FILES_DENIED, .text_len = 8}, .text = "\033[2Jx\r\n"};

    worker_say(sock, FILES_DONE, &raw, sizeof(raw.done) + sizeof(raw.text));
}

/* A failure may name a file. The name must not drive the terminal of a reader. */
TEST(a_worker_names_a_file_in_control_characters)
{
    struct worker_link hostile = worker_connect(fail_with_escapes);
    struct err e = {0};

    CHECK_FAILS(hostile.files, ask_mkdir(hostile.files, &e), "denied");
    for (const char *c = e.msg; *c != '\0'; c++) {
        CHECK((unsigned char)*c >= ' ' || *c == '\n'); /* log.c takes line breaks out */
    }
    worker_disconnect(&hostile);
}
