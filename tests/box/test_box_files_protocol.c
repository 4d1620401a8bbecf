/* SPDX-License-Identifier: Apache-2.0 */
/* File work with a worker that is hostile itself: played by a process of the test. */
#include <errno.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "files_fixture.h"

static void say(int sock, enum files_type type, const void *body, size_t n)
{
    AUTO_BUF struct buf b = BUF_INIT(FILES_BODY_MAX + 64);

    CHECK_INT(files_msg_put(&b, type, body, n), 0);
    (void)fd_send(sock, b.data, b.len, NULL, 0, 0);
}

static void say_done(int sock, uint64_t count)
{
    struct files_done done = {.count = count};

    say(sock, FILES_DONE, &done, sizeof(done));
}

static void say_info(int sock, uint64_t size)
{
    struct files_info info = {.kind = FILES_FILE, .size = size};

    say(sock, FILES_INFO, &info, sizeof(info));
}

static void too_much(int sock)
{
    say_info(sock, 5);
    say(sock, FILES_DATA, "123456", 6);
}

static void too_little(int sock)
{
    say_info(sock, 5);
    say(sock, FILES_DATA, "1234", 4);
    say_done(sock, 4);
}

static void wrong_count(int sock)
{
    say_info(sock, 5);
    say(sock, FILES_DATA, "12345", 5);
    say_done(sock, 6);
}

static void data_first(int sock)
{
    say(sock, FILES_DATA, "12345", 5);
}

static void nothing_at_all(int sock)
{
    say_done(sock, 0);
}

static void huge_size(int sock)
{
    say_info(sock, UINT64_MAX);
}

static void file_that_leads_away(int sock)
{
    struct {
        struct files_info info;
        char target[4];
    } raw = {.info = {.kind = FILES_FILE, .size = 5}, .target = "/etc"};

    say(sock, FILES_INFO, &raw, sizeof(raw));
}

static void two_infos(int sock)
{
    say_info(sock, 5);
    say_info(sock, 5);
}

static void entries_instead(int sock)
{
    AUTO_BUF struct buf b = BUF_INIT(4096);
    struct files_info info = {.kind = FILES_FILE};

    CHECK_INT(files_msg_put(&b, FILES_ENTRIES, NULL, 0), 0);
    CHECK_INT(files_msg_put_entry(&b, &info, "name", ""), 0);
    (void)fd_send(sock, b.data, b.len, NULL, 0, 0);
}

static void unknown_type(int sock)
{
    struct files_head head = {.type = 77, .len = 1};

    (void)fd_send(sock, &head, sizeof(head), NULL, 0, 0);
}

static void request_back(int sock)
{
    struct files_head head = {.type = FILES_READ, .len = 32};

    (void)fd_send(sock, &head, sizeof(head), NULL, 0, 0);
}

static void endless_length(int sock)
{
    struct files_head head = {.type = FILES_DATA, .len = UINT32_MAX};

    (void)fd_send(sock, &head, sizeof(head), NULL, 0, 0);
}

/* From Linux 6.16 on the socket takes none: then the worker can only give up, or say nonsense. */
static void descriptor(int sock)
{
    struct files_head head = {.type = FILES_TICK};

    if (fd_send(sock, &head, sizeof(head), &sock, 1, 0) == -EPERM) {
        head.type = UINT32_MAX;
        (void)fd_send(sock, &head, sizeof(head), NULL, 0, 0);
    }
}

static void half_a_message(int sock)
{
    struct files_head head = {.type = FILES_DATA, .len = 100};

    (void)fd_send(sock, &head, sizeof(head), NULL, 0, 0);
    shutdown(sock, SHUT_RDWR);
}

static void silence(int sock)
{
    char byte;

    while (fd_recv(sock, &byte, 1, NULL, 0) > 0) {
    }
}

static void ticks_for_ever(int sock)
{
    struct files_head head = {.type = FILES_TICK};
    struct timespec pause = {.tv_nsec = 5000000};

    while (fd_send(sock, &head, sizeof(head), NULL, 0, 0) > 0) {
        nanosleep(&pause, NULL);
    }
}

/* Faster than they are read: a reader that never waits would never let other fibers run. */
static void ticks_without_pause(int sock)
{
    struct files_head heads[1024];

    for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
        heads[i] = (struct files_head){.type = FILES_TICK};
    }
    while (fd_send(sock, heads, sizeof(heads), NULL, 0, 0) > 0) {
    }
}

/* Plays PID 1 and worker: takes the socket, says that it is ready, then does its worst. */
static pid_t play_worker(int control, void (*act)(int sock))
{
    struct fd_set_msg fds = {.n = 0};
    char frame[256];
    pid_t pid = fork();

    CHECK(pid >= 0);
    if (pid != 0) {
        return pid;
    }
    CHECK(fd_recv(control, frame, sizeof(frame), &fds, 0) > 0);
    CHECK_INT(fds.n, 1);
    say(fds.fds[0], FILES_READY, NULL, 0);
    CHECK(fd_recv(fds.fds[0], frame, sizeof(frame), NULL, 0) > 0);
    act(fds.fds[0]);
    silence(fds.fds[0]);
    _exit(0);
}

TEST(a_hostile_worker_is_given_up_whatever_it_says)
{
    static const struct {
        void (*act)(int sock);
        const char *want;
    } rows[] = {
        {too_much, "protocol_violation"},
        {too_little, "protocol_violation"},
        {wrong_count, "protocol_violation"},
        {data_first, "protocol_violation"},
        {nothing_at_all, "protocol_violation"},
        {huge_size, "protocol_violation"},
        {file_that_leads_away, "protocol_violation"},
        {two_infos, "protocol_violation"},
        {entries_instead, "protocol_violation"},
        {unknown_type, "protocol_violation"},
        {request_back, "protocol_violation"},
        {endless_length, "protocol_violation"},
        {descriptor, "protocol_violation"},
        {half_a_message, "worker_lost"},
        {silence, "timeout"},
        {ticks_for_ever, "timeout"},
        {ticks_without_pause, "protocol_violation"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_BUF struct buf got = BUF_INIT(0);
        struct channel control;
        struct err e = {0};
        int pair[2];
        CASE("row %zu", i);
        CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        play_worker(pair[1], rows[i].act);
        close(pair[1]);
        channel_init(&control, pair[0]);
        struct box_files *f = box_files_connect(&control, &e);
        CHECK(f != NULL);
        box_files_set_patience(f, 50);
        CHECK_FAILS(f, fixture_read(f, "f", false, &got, &e), rows[i].want);
        CHECK(!box_files_is_usable(f));
        box_files_close(f);
        channel_release(&control);
    }
}

static void entries_for_ever(int sock)
{
    AUTO_BUF struct buf b = BUF_INIT(FILES_BODY_MAX + 64);
    struct files_info info = {.kind = FILES_FILE};

    CHECK_INT(files_msg_put(&b, FILES_ENTRIES, NULL, 0), 0);
    while (files_msg_put_entry(&b, &info, "name", "") == 0) {
    }
    while (fd_send(sock, b.data, b.len, NULL, 0, 0) > 0) {
    }
}

TEST(no_listing_is_longer_than_a_million_entries)
{
    struct channel control;
    size_t n = 0;
    struct box_files_list list = {.on_entry = fixture_count_entry, .user = &n};
    struct err e = {0};
    int pair[2];

    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    play_worker(pair[1], entries_for_ever);
    close(pair[1]);
    channel_init(&control, pair[0]);
    struct box_files *f = box_files_connect(&control, &e);
    CHECK(f != NULL);
    CHECK_FAILS(f, box_files_list(f, "", &list, &e), "protocol_violation");
    CHECK_INT(n, FILES_ENTRIES_MAX);
    box_files_close(f);
    channel_release(&control);
}
