/* SPDX-License-Identifier: Apache-2.0 */
/* A zygote and what it is asked: here the test is its launcher. */
#include <spawn.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "box/root.h"
#include "box/seccomp.h"
#include "engine_fixture.h"
#include "tap.h"
#include "wire/launcher_msg.h"
#include "wire/zygote_msg.h"

/*
 * A zygote that we are the launcher of; ready. Outside of any root, so that its boxes end in their
 * set-up.
 */
static int own_zygote(pid_t *ret_pid)
{
    char path[4096];
    char *argv[] = {path, "start", "/bin/true", NULL};
    char *env[] = {NULL};
    posix_spawn_file_actions_t actions;
    struct zygote_rep rep;
    int pair[2];

    if (geteuid() != 0) {
        SKIP("full isolation needs root");
    }
    fixture_paths();
    CHECK_INT(str_format(path, sizeof(path), "%s/husk-init", getenv("HUSK_LIB_DIR")), 0);
    CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    CHECK_INT(posix_spawn_file_actions_init(&actions), 0);
    CHECK_INT(posix_spawn_file_actions_adddup2(&actions, pair[1], ZYGOTE_FD), 0);
    CHECK_INT(posix_spawn(ret_pid, path, &actions, NULL, argv, env), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(pair[1]);
    CHECK_INT(fd_recv(pair[0], &rep, sizeof(rep), NULL, 0), sizeof(rep));
    CHECK_INT(rep.event, ZYGOTE_READY);
    return pair[0];
}

static void ask(int zygote, const struct zygote_req *req, size_t size)
{
    int pair[2];

    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    const int fds[ZYGOTE_SPAWN_FDS] = {pair[0], pair[0], pair[0], pair[0]};
    CHECK_INT(fd_send(zygote, req, size, fds, ZYGOTE_SPAWN_FDS, 0), size);
    close(pair[0]);
    close(pair[1]);
}

/*
 * It does not trust its launcher blindly: a number too large would be a filter made of whatever
 * lies in memory there.
 */
TEST(a_zygote_ends_on_a_request_that_is_none)
{
    const struct zygote_req good = {.box_id = 1, .block = 1, .limits = limits_default()};
    struct zygote_req filter = good;
    struct zygote_req far = good;
    struct zygote_req mode = good;
    const struct {
        const char *what;
        const struct zygote_req *req;
        size_t size;
    } rows[] = {
        {"the first number without a filter", &filter, sizeof(filter)},
        {"the last number", &far, sizeof(far)},
        {"a mode that there is not", &mode, sizeof(mode)},
        {"a short one", &good, sizeof(good) - 1},
    };

    filter.seccomp = (uint32_t)seccomp_programs_n;
    far.seccomp = UINT32_MAX;
    mode.mode = LAUNCHER_SESSION + 1;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        pid_t pid;
        int status;
        CASE("%s", rows[i].what);
        AUTO_CLOSE int zygote = own_zygote(&pid);
        ask(zygote, rows[i].req, rows[i].size);
        CHECK_INT(waitpid(pid, &status, 0), pid);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    }
}

/*
 * The half of it that all boxes inherit is loaded once. A box with another one would have two
 * halves that do not fit.
 */
TEST(a_zygote_stays_with_its_first_filter)
{
    struct zygote_req req = {.box_id = 1, .block = 1, .limits = limits_default()};
    struct zygote_rep rep = {0};
    pid_t pid;
    AUTO_CLOSE int zygote = own_zygote(&pid);

    ask(zygote, &req, sizeof(req));
    while (rep.event != ZYGOTE_EXITED) {
        struct fd_set_msg fds = {.n = 0};
        CHECK_INT(fd_recv(zygote, &rep, sizeof(rep), &fds, 0), sizeof(rep));
        CHECK(rep.event == ZYGOTE_SPAWNED || rep.event == ZYGOTE_EXITED);
        fd_set_release(&fds);
    }
    req.seccomp = 1;
    ask(zygote, &req, sizeof(req));
    CHECK_INT(fd_recv(zygote, &rep, sizeof(rep), NULL, 0), sizeof(rep));
    CHECK_INT(rep.event, ZYGOTE_REFUSED);
    CHECK_INT(rep.err.code, ERR_ISOLATION);
    fd_close(&zygote);
    CHECK_INT(waitpid(pid, NULL, 0), pid);
}
