/* SPDX-License-Identifier: Apache-2.0 */
/* Definitions for a launcher that does not read them: the supervisor goes on. */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "supervisor/definitions.h"
#include "tap.h"
#include "wire/launcher_msg.h"

#define FRAMES 300 /* far more than a socket holds */
#define TICKET 7

static int null = -1;

/* As core/template_fill.c does: every other frame with a descriptor, which is closed afterwards. */
static int define(void *user, const struct definition_wanted *want,
                  int (*put)(void *to, struct launcher_req *req, const int *fd, struct err *e),
                  void *to, struct err *e)
{
    int *fails_after = user;

    (void)want;
    for (uint32_t i = 0; i < FRAMES; i++) {
        struct launcher_req req = {.op = i % 2 == 0 ? LAUNCHER_MOUNT : LAUNCHER_ARG, .box_id = i};
        AUTO_CLOSE int fd = i % 2 == 0 ? fcntl(null, F_DUPFD_CLOEXEC, 0) : -1;
        if (fails_after != NULL && (int)i == *fails_after) {
            return err_set(e, ERR_NOT_FOUND, "gone");
        }
        if (put(to, &req, fd >= 0 ? &fd : NULL, e) < 0) {
            return -1;
        }
    }
    return 0;
}

static void ask(int launcher)
{
    const struct launcher_want want = {.template_id = 3, .ticket = TICKET, .base = "python"};

    CHECK_INT(fd_send(launcher, &want, sizeof(want), NULL, 0, 0), sizeof(want));
}

static void open_pair(int *ours, int *launcher)
{
    int pair[2];

    null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    *ours = pair[0];
    *launcher = pair[1];
}

/* Takes one frame. False: there is none. */
static bool take(int launcher, uint32_t want_number)
{
    struct launcher_req req;
    struct fd_set_msg fds = {.n = 0};
    struct stat st;

    ssize_t n = fd_recv(launcher, &req, sizeof(req), &fds, MSG_DONTWAIT);
    if (n == -EAGAIN) {
        return false;
    }
    CHECK_INT(n, sizeof(req));
    CHECK_INT(req.seq, TICKET);
    CHECK_INT(req.template_id, 3);
    CHECK_INT(req.box_id, want_number);
    CHECK_INT(fds.n, want_number % 2 == 0 ? 1 : 0);
    CHECK(fds.n == 0 || (fstat(fds.fds[0], &st) == 0 && S_ISCHR(st.st_mode)));
    fd_set_release(&fds);
    return true;
}

TEST(a_launcher_that_does_not_read_is_not_waited_for)
{
    const struct supervisor_options o = {.define = define};
    struct definitions d = {0};
    AUTO_CLOSE int ours = -1;
    AUTO_CLOSE int launcher = -1;
    uint32_t taken = 0;

    open_pair(&ours, &launcher);
    ask(launcher);
    ask(launcher); /* the second question waits for the first answer */
    CHECK(definitions_serve(&d, &o, ours));
    CHECK(definitions_owe(&d));
    size_t owed = d.n;
    CHECK(definitions_serve(&d, &o, ours));
    CHECK_INT(d.n, owed);
    definitions_tell(&d, ours); /* the launcher still does not read */
    CHECK_INT(d.n, owed);

    while (definitions_owe(&d)) { /* in order, with their descriptors */
        CHECK(take(launcher, taken++));
        definitions_tell(&d, ours);
    }
    while (take(launcher, taken)) {
        taken++;
    }
    CHECK_INT(taken, FRAMES);
    CHECK(definitions_serve(&d, &o, ours));
    CHECK(take(launcher, 0));
    definitions_drop(&d);
    CHECK(!definitions_owe(&d));
    fd_close(&null);
}

TEST(what_is_owed_to_a_launcher_that_is_gone_is_dropped)
{
    const struct supervisor_options o = {.define = define};
    struct definitions d = {0};
    AUTO_CLOSE int ours = -1;
    AUTO_CLOSE int launcher = -1;

    open_pair(&ours, &launcher);
    ask(launcher);
    CHECK(definitions_serve(&d, &o, ours));
    fd_close(&launcher);
    definitions_tell(&d, ours);
    CHECK(!definitions_owe(&d));
    CHECK(!definitions_serve(&d, &o, ours));
    fd_close(&null);
}

/* That a definition could not be read comes behind what was said of it before. */
TEST(a_failure_keeps_its_place_in_the_line)
{
    int fails_after = FRAMES - 1;
    const struct supervisor_options o = {.define = define, .user = &fails_after};
    struct definitions d = {0};
    AUTO_CLOSE int ours = -1;
    AUTO_CLOSE int launcher = -1;
    struct launcher_req req;

    open_pair(&ours, &launcher);
    ask(launcher);
    CHECK(definitions_serve(&d, &o, ours));
    for (uint32_t i = 0; i < FRAMES - 1; i++) {
        CHECK(take(launcher, i));
        definitions_tell(&d, ours);
    }
    CHECK_INT(fd_recv(launcher, &req, sizeof(req), NULL, MSG_DONTWAIT), sizeof(req));
    CHECK_INT(req.op, LAUNCHER_FAIL);
    CHECK_INT(req.fail.code, ERR_NOT_FOUND);
    CHECK(!definitions_owe(&d));
    fd_close(&null);
}
