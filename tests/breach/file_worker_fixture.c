/* SPDX-License-Identifier: Apache-2.0 */
/* A file worker that a process of the test plays; see file_worker_fixture.h. */
#include "file_worker_fixture.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"

#define PATIENCE_MS 10000
#define SHORT_MS 100 /* for a worker that is expected not to answer */
#define QUIET_MS 25
#define TEXT "hello"

/* ---- the worker ---- */

void worker_say(int sock, uint32_t type, const void *body, size_t n)
{
    struct files_head head = {.type = type, .len = (uint32_t)n};

    (void)fd_send(sock, &head, sizeof(head), NULL, 0, 0);
    if (n > 0) {
        (void)fd_send(sock, body, n, NULL, 0, 0);
    }
}

void worker_say_done(int sock, uint64_t count)
{
    const struct files_done done = {.count = count};

    worker_say(sock, FILES_DONE, &done, sizeof(done));
}

/* One entry whose name, target and lengths are as given, and DONE. */
void worker_say_entry(int sock, struct files_entry entry, const char *text, size_t n)
{
    char body[8192];

    entry.info.kind = entry.info.kind != 0 ? entry.info.kind : FILES_FILE;
    memcpy(body, &entry, sizeof(entry));
    memcpy(body + sizeof(entry), text, n);
    worker_say(sock, FILES_ENTRIES, body, sizeof(entry) + n);
    worker_say_done(sock, 1);
}

void worker_say_name(int sock, const char *name, size_t n)
{
    worker_say_entry(sock, (struct files_entry){.name_len = (uint32_t)n}, name, n);
}

void worker_say_info(int sock, struct files_info info)
{
    worker_say(sock, FILES_INFO, &info, sizeof(info));
}

/* Takes what comes, until nothing has come for a moment. */
void worker_take_all(int sock)
{
    struct pollfd p = {.fd = sock, .events = POLLIN};
    char bytes[4096];

    while (poll(&p, 1, QUIET_MS) > 0 && fd_recv(sock, bytes, sizeof(bytes), NULL, 0) > 0) {
    }
}

static void wait_end(int sock)
{
    char bytes[4096];

    while (fd_recv(sock, bytes, sizeof(bytes), NULL, 0) > 0) {
    }
}

static void be_honest(int sock)
{
    worker_say_info(sock, (struct files_info){.kind = FILES_FILE, .size = strlen(TEXT)});
    worker_say(sock, FILES_DATA, TEXT, strlen(TEXT));
    worker_say_done(sock, strlen(TEXT));
}

/* Plays PID 1 and its worker: takes the socket, is ready, waits for the request, and acts. */
static void play(int control, void (*act)(int sock))
{
    struct fd_set_msg fds = {.n = 0};
    char frame[256];

    if (fork() != 0) {
        return;
    }
    CHECK(fd_recv(control, frame, sizeof(frame), &fds, 0) > 0);
    CHECK_INT(fds.n, 1);
    worker_say(fds.fds[0], FILES_READY, NULL, 0);
    CHECK(fd_recv(fds.fds[0], frame, sizeof(frame), NULL, 0) > 0);
    act(fds.fds[0]);
    wait_end(fds.fds[0]);
    _exit(0);
}

/* ---- huskd's side ---- */

struct worker_link worker_connect(void (*act)(int sock))
{
    struct worker_link l;
    struct err e = {0};
    int pair[2];

    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    play(pair[1], act);
    close(pair[1]);
    channel_init(&l.control, pair[0]);
    l.files = box_files_connect(&l.control, &e);
    CHECK(l.files != NULL);
    box_files_set_patience(l.files, PATIENCE_MS);
    return l;
}

void worker_disconnect(struct worker_link *l)
{
    box_files_close(l->files);
    channel_release(&l->control);
}

/* The request must fail with one status; a neighbour is asked meanwhile. */
void worker_try(void (*act)(int sock), int (*request)(struct box_files *f, struct err *e),
                const char *want)
{
    AUTO_BUF struct buf got = BUF_INIT(0);
    struct worker_link neighbour = worker_connect(be_honest);
    struct worker_link hostile = worker_connect(act);
    struct err e = {0};

    if (str_eq(want, "timeout")) {
        box_files_set_patience(hostile.files, SHORT_MS);
    }
    CHECK_FAILS(hostile.files, request(hostile.files, &e), want);
    CHECK(!box_files_is_usable(hostile.files));
    CHECK_INT(request(hostile.files, &e), -1); /* and stays so */
    CHECK_DONE(fixture_read(neighbour.files, "f", false, &got, &e));
    CHECK_INT(got.len, strlen(TEXT));
    worker_disconnect(&hostile);
    worker_disconnect(&neighbour);
}
