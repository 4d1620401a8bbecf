/* SPDX-License-Identifier: Apache-2.0 */
/* runner/control.h and runner/files.h: frames on the control socket, and files of a run. */
#include "runner/control.h"

#include <signal.h>
#include <stdio.h>
#include <sys/time.h>

#include "runner/files.h"
#include "runner_fixture.h"

static const uint8_t token[FRAME_TOKEN_SIZE] = "token of a run.";
static int box = -1; /* the runner's end; peer is the other one */

static void open_pair(void)
{
    int pair[2];

    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    box = pair[0];
    peer = pair[1];
}

static void close_pair(void)
{
    fd_close(&box);
    fd_close(&peer);
}

/* Reads a frame from fd whose fields are then walked. */
static uint32_t take_frame(int fd, struct buf *body)
{
    struct fd_set_msg fds = {.n = 0};
    struct frame_head head;

    CHECK_INT(control_recv(fd, &head, body, &fds), 1);
    CHECK_INT(fds.n, 0);
    return head.type;
}

static const char *field(const struct buf *body, enum frame_key key)
{
    static char text[512];
    struct frame_field f;

    for (size_t at = 0; frame_next(body->data, body->len, &at, &f) > 0;) {
        if (f.key == key && f.len < sizeof(text)) {
            memcpy(text, f.data, f.len);
            text[f.len] = '\0';
            return text;
        }
    }
    return NULL;
}

TEST(a_frame_arrives_whole_and_with_its_descriptors)
{
    AUTO_BUF struct buf sent = BUF_INIT(1 << 20);
    AUTO_BUF struct buf got = BUF_INIT(1 << 20);
    struct fd_set_msg fds = {.n = 0};
    struct frame_head head;

    open_pair();
    CHECK_INT(frame_begin(&sent, FRAME_RUN, token), 0);
    CHECK_INT(frame_add_str(&sent, KEY_CODE, "print(1)") + frame_end(&sent), 0);
    CHECK_INT(fd_send(peer, sent.data, 5, (int[]){peer, box}, 2, 0), 5); /* torn apart */
    CHECK_INT(fd_write_all(peer, sent.data + 5, sent.len - 5), 0);
    CHECK_INT(control_recv(box, &head, &got, &fds), 1);
    CHECK_INT(head.type, FRAME_RUN);
    CHECK_INT(memcmp(head.token, token, sizeof(token)), 0);
    CHECK_STR(field(&got, KEY_CODE), "print(1)");
    CHECK_INT(fds.n, 2);
    fd_set_release(&fds);

    fd_close(&peer);
    CHECK_INT(control_recv(box, &head, &got, &fds), 0);
    close_pair();
}

TEST(a_frame_that_is_cut_off_or_too_large_is_refused)
{
    const struct frame_head large = {.type = FRAME_RUN, .len = (uint32_t)FRAME_TO_BOX_MAX + 1};
    const struct frame_head longer = {.type = FRAME_RUN, .len = 100};
    AUTO_BUF struct buf got = BUF_INIT(64);
    struct fd_set_msg fds = {.n = 0};
    struct frame_head head;

    open_pair();
    CHECK_INT(fd_write_all(peer, &large, sizeof(large)), 0);
    CHECK_INT(control_recv(box, &head, &got, &fds), -EMSGSIZE);
    CHECK_INT(fd_write_all(peer, &longer, sizeof(longer)), 0);
    CHECK_INT(control_recv(box, &head, &got, &fds), -EMSGSIZE); /* of its buffer */
    close_pair();

    open_pair();
    CHECK_INT(fd_write_all(peer, &longer, sizeof(longer) - 1), 0);
    fd_close(&peer);
    CHECK_INT(control_recv(box, &head, &got, &fds), -EBADMSG);
    close_pair();
}

static void on_alarm(int sig)
{
    (void)sig;
}

TEST(a_signal_interrupts_the_wait_and_loses_no_byte)
{
    const struct sigaction interrupts = {.sa_handler = on_alarm};
    const struct itimerval soon = {.it_value = {.tv_usec = 20000}};
    AUTO_BUF struct buf got = BUF_INIT(1024);
    struct fd_set_msg fds = {.n = 0};
    struct frame_head head;

    open_pair();
    CHECK_INT(sigaction(SIGALRM, &interrupts, NULL), 0);
    CHECK_INT(setitimer(ITIMER_REAL, &soon, NULL), 0);
    CHECK_INT(control_recv(box, &head, &got, &fds), -EINTR);
    CHECK_INT(control_send_ready(peer), 0);
    CHECK_INT(take_frame(box, &got), FRAME_READY);
    close_pair();
}

TEST(a_context_that_is_idle_is_not_polled_for)
{
    open_pair();
    CHECK(!control_look(box)); /* no cell has come yet: no reason to expect one */
    close_pair();
}

TEST(failures_are_reported_without_waiting)
{
    AUTO_BUF struct buf got = BUF_INIT(1024);
    char longest[1000];

    open_pair();
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    control_send_failed(box, longest);
    CHECK_INT(take_frame(peer, &got), FRAME_FAILED);
    CHECK_INT(strlen(field(&got, KEY_ERROR_MESSAGE)), 400);
    control_send_refused(box, EAGAIN);
    CHECK_INT(take_frame(peer, &got), FRAME_EXITED);
    uint32_t why = 0;
    struct frame_field f;
    size_t at = 0;
    CHECK_INT(frame_next(got.data, got.len, &at, &f), 1);
    CHECK_INT(frame_field_u32(&f, &why), 0);
    CHECK_INT(why, EAGAIN);

    /* The peer does not read: the runner goes on all the same. */
    CHECK_INT(fd_set_nonblock(box, true), 0);
    while (send(box, longest, sizeof(longest), MSG_DONTWAIT) > 0) {
    }
    CHECK_INT(fd_set_nonblock(box, false), 0);
    control_send_failed(box, "full");
    control_send_refused(box, EAGAIN);
    close_pair();
}

/* ---- files of a run ---- */

static int put_field(const char *data, size_t len, struct err *e)
{
    return files_put(&(struct frame_field){.key = KEY_PUT, .data = data, .len = (uint32_t)len}, e);
}

TEST(a_file_is_put_with_its_folders)
{
    struct err e = {0};

    enter_folder();
    CHECK_INT(put_field("a/b/file\0text", 13, &e), 0);
    check_content("a/b/file", "text");
    CHECK_INT(mode_of("a/b/file"), 0755);
    CHECK_INT(put_field("a/b/file\0", 9, &e), 0); /* replaced by an empty one */
    check_content("a/b/file", "");

    CHECK_INT(symlink("a/b/file", "link"), 0);
    CHECK_INT(put_field("link\0text", 9, &e), -1);
    CHECK_INT(e.sys_errno, ELOOP);
    check_content("a/b/file", "");
    CHECK_INT(put_field("no end of its name", 18, &e), -1);
    CHECK_INT(e.code, ERR_INVALID);
    CHECK_INT(put_field("\0text", 5, &e), -1);
    CHECK_INT(e.code, ERR_INVALID);
    remove_folder();
}

static void get(const char *name, struct buf *ret)
{
    const struct frame_field f = {.key = KEY_GET, .data = name, .len = (uint32_t)strlen(name)};
    struct frame_head run = {.type = FRAME_RUN};

    memcpy(run.token, token, sizeof(run.token));
    CHECK_INT(files_send(box, &run, &f), 0);
    CHECK_INT(take_frame(peer, ret), FRAME_FILE);
    CHECK_STR(field(ret, KEY_NAME), name);
}

TEST(a_file_is_sent_or_why_it_cannot_be)
{
    AUTO_BUF struct buf got = BUF_INIT(4096);

    enter_folder();
    open_pair();
    put("file", "its text", 0644);
    CHECK_INT(mkfifo("pipe", 0600), 0);
    put("large", "", 0644);
    CHECK_INT(truncate("large", FRAME_FROM_BOX_MAX), 0);
    get("file", &got);
    CHECK_STR(field(&got, KEY_DATA), "its text");
    CHECK(field(&got, KEY_ERROR_MESSAGE) == NULL);
    get("none", &got);
    CHECK_STR(field(&got, KEY_ERROR_MESSAGE), "No such file or directory");
    CHECK(field(&got, KEY_DATA) == NULL);
    get("pipe", &got);
    CHECK_STR(field(&got, KEY_ERROR_MESSAGE), "Invalid argument");
    get("large", &got);
    CHECK_STR(field(&got, KEY_ERROR_MESSAGE), "larger than 24 MiB");
    CHECK_INT(files_send(box, &(struct frame_head){0}, &(struct frame_field){.len = 0}), -EINVAL);
    close_pair();
    remove_folder();
}

TEST(a_ping_is_answered_in_its_place_among_the_frames)
{
    const struct frame_head ping = {.type = FRAME_PING, .token = "token of a ping"};
    AUTO_BUF struct buf sent = BUF_INIT(1 << 20);
    AUTO_BUF struct buf got = BUF_INIT(1 << 20);
    struct fd_set_msg fds = {.n = 0};
    struct frame_head head;

    open_pair();
    CHECK_INT(fd_write_all(peer, &ping, sizeof(ping)), 0);
    CHECK_INT(frame_begin(&sent, FRAME_RUN, token) + frame_end(&sent), 0);
    CHECK_INT(control_send(peer, &sent), 0);
    CHECK_INT(fd_write_all(peer, &ping, sizeof(ping)), 0);
    fd_set_nonblock(box, true);
    CHECK_INT(control_recv(box, &head, &got, &fds), 1);
    CHECK_INT(head.type, FRAME_RUN);
    CHECK_INT(take_frame(peer, &got), FRAME_PONG); /* of the first one only */
    fd_set_nonblock(peer, true);
    CHECK_INT(control_recv(peer, &head, &got, &fds), -EAGAIN);
    CHECK_INT(control_recv(box, &head, &got, &fds), -EAGAIN);
    CHECK_INT(control_recv(peer, &head, &got, &fds), 1);
    CHECK_INT(memcmp(head.token, ping.token, sizeof(ping.token)), 0);
    close_pair();
}
