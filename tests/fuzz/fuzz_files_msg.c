/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target of file work: wire/files_msg.h in both directions, wire/tar.h, and core/box_files.h
 * against a worker that says anything. The first byte chooses, the second is for the one that is
 * chosen.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/box_files_impl.h"
#include "fuzz.h"
#include "wire/tar.h"

#define MOST 32768 /* fits into a socket */

/* What the worker makes of a request. */
static void take_request(const char *data, size_t n)
{
    AUTO_BUF struct buf again = BUF_INIT(FILES_BODY_MAX + sizeof(struct files_head));
    char path[FILES_PATH_MAX + 1];
    char to[FILES_PATH_MAX + 1];
    struct files_head head;
    struct files_req req;

    if (n < sizeof(head) || files_msg_get_head(data, false, &head) < 0 ||
        n - sizeof(head) < head.len ||
        files_msg_get_req(&head, data + sizeof(head), &req, path, to) < 0) {
        return;
    }
    FUZZ_CHECK(files_msg_path_ok(path, strlen(path), true));
    FUZZ_CHECK(strlen(path) == req.path_len && strlen(to) == req.to_len);
    FUZZ_CHECK((to[0] != '\0') == (head.type == FILES_MOVE));
    FUZZ_CHECK(files_msg_put_req(&again, (enum files_type)head.type, &req, path,
                                 to[0] != '\0' ? to : NULL) == 0);
    FUZZ_CHECK(again.len == sizeof(head) + head.len && memcmp(again.data, data, again.len) == 0);
}

/* ---- tar ---- */

/* A sum over everything that the reader says. */
struct sum {
    uint64_t value;
    uint64_t left; /* bytes of the file that is open */
    bool open;
};

static void mix(struct sum *s, const void *data, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        s->value = (s->value ^ ((const unsigned char *)data)[i]) * 1099511628211U;
    }
}

static int sum_entry(void *user, const struct tar_entry *entry)
{
    struct sum *s = user;

    FUZZ_CHECK(!s->open);
    FUZZ_CHECK(files_msg_path_ok(entry->name, strlen(entry->name), entry->kind == TAR_DIRECTORY));
    FUZZ_CHECK((entry->mode & ~0777U) == 0 && entry->size <= INT64_MAX);
    FUZZ_CHECK(entry->link[0] != '/' && strlen(entry->link) <= FILES_PATH_MAX);
    FUZZ_CHECK(entry->kind != TAR_HARD_LINK ||
               files_msg_path_ok(entry->link, strlen(entry->link), false));
    FUZZ_CHECK((entry->link[0] != '\0') ==
               (entry->kind == TAR_LINK || entry->kind == TAR_HARD_LINK));
    mix(s, entry->name, strlen(entry->name));
    mix(s, entry->link, strlen(entry->link));
    mix(s, &entry->size, sizeof(entry->size));
    s->open = entry->kind == TAR_FILE;
    s->left = entry->size;
    return 0;
}

static int sum_data(void *user, const char *data, size_t n)
{
    struct sum *s = user;

    FUZZ_CHECK(s->open && n > 0 && n <= s->left);
    s->left -= n;
    mix(s, data, n);
    return 0;
}

static int sum_end(void *user)
{
    struct sum *s = user;

    FUZZ_CHECK(s->open && s->left == 0);
    s->open = false;
    return 0;
}

static int read_tar(const char *data, size_t n, size_t portion, struct sum *s)
{
    static const struct tar_events events = {sum_entry, sum_data, sum_end};
    struct tar_reader r;
    int e = 0;

    *s = (struct sum){0};
    tar_reader_init(&r, &events, s);
    for (size_t at = 0; at < n && e == 0; at += portion) {
        e = tar_reader_feed(&r, data + at, MIN(portion, n - at));
    }
    e = e == 0 ? tar_reader_finish(&r) : e;
    FUZZ_CHECK(e == 0 || (e == -EBADMSG && r.problem != NULL));
    tar_reader_release(&r);
    return e;
}

/* Gives every block that looks like a header the right sum: by chance it would never have it. */
static void repair_sums(char *data, size_t n)
{
    for (size_t at = 0; at + TAR_BLOCK <= n; at += TAR_BLOCK) {
        char *sum = data + at + 148;
        unsigned value = 0;
        if (memcmp(data + at + 257, "ustar", 5) != 0) {
            continue;
        }
        memset(sum, ' ', 8);
        for (size_t i = 0; i < TAR_BLOCK; i++) {
            value += (unsigned char)data[at + i];
        }
        for (int i = 5; i >= 0; i--, value >>= 3) {
            sum[i] = (char)('0' + (value & 7));
        }
        sum[6] = '\0';
    }
}

static void take_tar(const char *input, size_t n, size_t portion)
{
    static char data[MOST];
    struct sum whole;
    struct sum parts;

    memcpy(data, input, n);
    if (portion % 2 == 0) {
        repair_sums(data, n);
    }
    int a = read_tar(data, n, n > 0 ? n : 1, &whole);
    int b = read_tar(data, n, portion + 1, &parts);
    FUZZ_CHECK(a == b);
    FUZZ_CHECK(a < 0 || whole.value == parts.value); /* after a refusal the rest was not read */
}

/* ---- a worker that says anything ---- */

struct limits_seen {
    uint64_t entries;
    uint64_t bytes;
    struct files_info info;
};

static int see_entry(void *user, const struct files_entry *entry, const char *name,
                     const char *target)
{
    struct limits_seen *seen = user;

    FUZZ_CHECK(files_msg_path_ok(name, entry->name_len, false));
    FUZZ_CHECK(entry->info.kind >= FILES_FILE && entry->info.kind <= FILES_OTHER);
    FUZZ_CHECK(entry->target_len == 0 || entry->info.kind == FILES_LINK);
    FUZZ_CHECK(entry->target_len <= FILES_PATH_MAX);
    FUZZ_CHECK(memchr(target, '\0', entry->target_len) == NULL);
    seen->entries++;
    return 0;
}

static int see_info(void *user, const struct files_info *info)
{
    struct limits_seen *seen = user;

    seen->info = *info;
    return 0;
}

static int see_data(void *user, const void *data, size_t n)
{
    struct limits_seen *seen = user;

    mix(&(struct sum){0}, data, n); /* touches every byte */
    seen->bytes += n;
    return 0;
}

static ssize_t no_data(void *user, void *to, size_t size)
{
    (void)user;
    (void)to;
    (void)size;
    return 0;
}

static int ask(struct box_files *f, unsigned which, struct err *e)
{
    struct limits_seen seen = {0};
    struct box_files_list list = {.limit = 5, .on_entry = see_entry, .user = &seen};
    struct box_files_read read = {.offset = 2,
                                  .length = 9,
                                  .on_info = see_info,
                                  .sink = {.on_data = see_data, .user = &seen}};
    struct box_files_write write = {.source = {.next = no_data}};
    struct files_info info;
    char target[FILES_PATH_MAX + 1];
    int r;

    switch (which % 5) {
    case 0:
        r = box_files_list(f, "", &list, e);
        FUZZ_CHECK(seen.entries <= 5);
        return r;
    case 1:
        r = box_files_read(f, "a", &read, e);
        FUZZ_CHECK(seen.bytes <= 9 && seen.bytes == read.sent);
        FUZZ_CHECK(r < 0 || seen.bytes == MIN(9, seen.info.size - MIN(2, seen.info.size)));
        return r;
    case 2:
        r = box_files_write(f, "a", &write, e);
        FUZZ_CHECK(r < 0 || write.written == 0);
        return r;
    case 3:
        r = box_files_stat(f, "a", false, &info, target, e);
        FUZZ_CHECK(r < 0 || strlen(target) <= (info.kind == FILES_LINK ? FILES_PATH_MAX : 0));
        return r;
    default:
        return box_files_pack(f, "", &read.sink, e);
    }
}

static void meet_worker(const char *data, size_t n, unsigned which)
{
    struct box_files f = {.in = BUF_INIT(sizeof(struct files_head) + FILES_BODY_MAX),
                          .out = BUF_INIT(sizeof(struct files_head) + FILES_BODY_MAX)};
    struct err e = {0};
    int pair[2];

    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    f.fd = pair[0];
    FUZZ_CHECK(n == 0 || send(pair[1], data, n, MSG_DONTWAIT) == (ssize_t)n);
    FUZZ_CHECK(shutdown(pair[1], SHUT_WR) == 0);
    for (int i = 0; i < 3; i++) {
        int r = ask(&f, which, &e);
        FUZZ_CHECK((r == 0) == (box_files_status(&f) == FILES_OK));
        FUZZ_CHECK(r == 0 || e.msg[0] != '\0');
        FUZZ_CHECK(box_files_is_usable(&f) || r < 0);
    }
    close(pair[0]);
    close(pair[1]);
    buf_release(&f.in);
    buf_release(&f.out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > MOST) {
        return 0;
    }
    const char *rest = (const char *)data + 2;
    size_t n = size - 2;

    switch (data[0] % 3) {
    case 0:
        take_request(rest, n);
        break;
    case 1:
        take_tar(rest, n, data[1]);
        break;
    default:
        meet_worker(rest, n, data[1]);
        break;
    }
    return 0;
}
