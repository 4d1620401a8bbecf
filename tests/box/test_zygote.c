/* SPDX-License-Identifier: Apache-2.0 */
/* A zygote and what it is asked: here the test is its launcher. */
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
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
 * A zygote that we are the launcher of, and its first word. Outside of any root, so that its boxes
 * end in their set-up.
 */
static int start_zygote(bool confined, pid_t *ret_pid, struct zygote_rep *ret)
{
    char path[4096];
    char *argv[] = {path, "start", "/bin/true", NULL};
    char *env[] = {NULL};
    int pair[2];

    if (geteuid() != 0) {
        SKIP("full isolation needs root");
    }
    fixture_paths();
    CHECK_INT(str_format(path, sizeof(path), "%s/husk-init", getenv("HUSK_LIB_DIR")), 0);
    CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    *ret_pid = fork();
    if (*ret_pid == 0) {
        bool ready = dup2(pair[1], ZYGOTE_FD) == ZYGOTE_FD &&
                     (!confined || (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                                    seccomp_load(&seccomp_programs[0].early) == 0));
        if (ready) {
            execve(path, argv, env);
        }
        _exit(126);
    }
    close(pair[1]);
    CHECK_INT(fd_recv(pair[0], ret, sizeof(*ret), NULL, 0), sizeof(*ret));
    return pair[0];
}

static int own_zygote(pid_t *ret_pid)
{
    struct zygote_rep rep;
    int zygote = start_zygote(true, ret_pid, &rep);

    CHECK_INT(rep.event, ZYGOTE_READY);
    return zygote;
}

/* Its boxes would have the second half of a filter only. */
TEST(a_zygote_that_was_not_confined_makes_no_boxes)
{
    struct zygote_rep rep;
    pid_t pid;
    AUTO_CLOSE int zygote = start_zygote(false, &pid, &rep);

    CHECK(zygote >= 0);
    CHECK_INT(rep.event, ZYGOTE_BROKEN);
    CHECK(strstr(rep.err.msg, "not confined") != NULL);
    CHECK_INT(waitpid(pid, NULL, 0), pid);
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
