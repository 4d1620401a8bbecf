/* SPDX-License-Identifier: Apache-2.0 */
/* A launcher to talk to in raw frames; see launcher_fixture.h. */
#include "launcher_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "engine_fixture.h"
#include "proc_fixture.h"
#include "tap.h"

#define PATIENCE_MS 10000
#define LAUNCHER_FD 3

extern char **environ;

/* Returns our end of its first socket. */
static int start_launcher(char *program, char *option, pid_t *ret_pid)
{
    posix_spawn_file_actions_t actions;
    int pair[2];

    if (geteuid() != 0) {
        SKIP("full isolation needs root");
    }
    fixture_paths();
    char *argv[] = {program != NULL ? program : getenv("HUSK_LAUNCHER"), option, NULL};
    CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    CHECK_INT(posix_spawn_file_actions_init(&actions), 0);
    CHECK_INT(posix_spawn_file_actions_adddup2(&actions, pair[1], LAUNCHER_FD), 0);
    CHECK_INT(posix_spawn(ret_pid, argv[0], &actions, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(pair[1]);
    return pair[0];
}

struct launcher_client launcher_open(void)
{
    struct launcher_client c = {.supervisor = -1};

    c.sock = start_launcher(NULL, NULL, &c.pid);
    return c;
}

static char *impatient_launcher(void)
{
    static char program[PATH_MAX];

    fixture_paths();
    CHECK_INT(str_format(program, sizeof(program), "%s/../../tests/box/husk-launcher-impatient",
                         getenv("HUSK_LIB_DIR")),
              0);
    return program;
}

struct launcher_client launcher_open_impatient(void)
{
    struct launcher_client c = {.supervisor = -1};

    c.sock = start_launcher(impatient_launcher(), NULL, &c.pid);
    return c;
}

static struct launcher_client open_supervised(char *program, uid_t uid)
{
    struct launcher_client c = {.sock = -1};

    c.supervisor = start_launcher(program, "--supervised", &c.pid);
    launcher_succeed(&c, uid);
    return c;
}

struct launcher_client launcher_open_for(uid_t uid)
{
    return open_supervised(NULL, uid);
}

struct launcher_client launcher_open_impatient_for(uid_t uid)
{
    return open_supervised(impatient_launcher(), uid);
}

void launcher_succeed(struct launcher_client *c, uid_t uid)
{
    const struct launcher_newcomer who = {.uid = uid};
    int pair[2];

    CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    CHECK_INT(fd_send(c->supervisor, &who, sizeof(who), &pair[1], 1, 0), sizeof(who));
    close(pair[1]);
    fd_close(&c->sock);
    c->sock = pair[0];
}

bool launcher_finds_kept(struct launcher_client *c, uint32_t box_id)
{
    struct launcher_req req = {.op = LAUNCHER_ADOPT};
    struct launcher_rep rep;
    bool found = false;

    launcher_send(c, &req, NULL, 0);
    do {
        CHECK(launcher_next(c, &rep));
        found = found || (rep.event == LAUNCHER_EV_KEPT && rep.box_id == box_id);
    } while (rep.event != LAUNCHER_EV_OK || rep.seq != c->seq);
    return found;
}

void launcher_close(struct launcher_client *c)
{
    const struct proc_list self = {.pids = {c->pid}, .n = 1};

    fd_close(&c->sock);
    fd_close(&c->supervisor);
    proc_wait_gone(&self);
    CHECK_INT(waitpid(c->pid, NULL, 0), c->pid);
    proc_wait_no_cgroups(c->pid);
}

ssize_t launcher_send_raw(struct launcher_client *c, const void *data, size_t n, const int *fds,
                          size_t nfds)
{
    return fd_send(c->sock, data, n, fds, nfds, MSG_DONTWAIT);
}

void launcher_send(struct launcher_client *c, struct launcher_req *req, const int *fds, size_t nfds)
{
    req->seq = ++c->seq;
    CHECK_INT(fd_send(c->sock, req, sizeof(*req), fds, nfds, 0), sizeof(*req));
}

bool launcher_next(struct launcher_client *c, struct launcher_rep *ret)
{
    struct pollfd p = {.fd = c->sock, .events = POLLIN};

    struct fd_set_msg fds = {.n = 0};

    CHECK_INT(poll(&p, 1, PATIENCE_MS), 1);
    ssize_t n = fd_recv(c->sock, ret, sizeof(*ret), &fds, 0);
    if (n == 0 || n == -ECONNRESET) {
        return false;
    }
    CHECK(n > 0 && launcher_rep_check(ret, (size_t)n));
    if (ret->event != LAUNCHER_EV_KEPT) {
        CHECK_INT(fds.n, ret->event == LAUNCHER_EV_BOX ? ret->view.n : 0); /* its counters */
    }
    fd_set_release(&fds);
    return true;
}

struct launcher_rep launcher_answer(struct launcher_client *c)
{
    struct launcher_rep rep;

    do {
        CHECK(launcher_next(c, &rep));
    } while (rep.seq != c->seq);
    return rep;
}

struct launcher_rep launcher_call(struct launcher_client *c, struct launcher_req *req,
                                  const int *fds, size_t nfds, enum launcher_event want)
{
    launcher_send(c, req, fds, nfds);
    struct launcher_rep rep = launcher_answer(c);
    if (rep.event != want) {
        tap_fail(__FILE__, __LINE__, "operation %u was answered by event %u, not %u: %s", req->op,
                 rep.event, want, rep.event == LAUNCHER_EV_ERROR ? rep.err.msg : "");
    }
    return rep;
}

void launcher_expect_hangup(struct launcher_client *c)
{
    const struct proc_list self = {.pids = {c->pid}, .n = 1};
    struct launcher_rep rep;

    if (launcher_next(c, &rep)) {
        tap_fail(__FILE__, __LINE__, "it was answered by event %u: %s", rep.event,
                 rep.event == LAUNCHER_EV_ERROR ? rep.err.msg : "");
    }
    proc_wait_gone(&self);
}

void launcher_greet(struct launcher_client *c)
{
    struct launcher_req req = {.op = LAUNCHER_HELLO, .hello.protocol = LAUNCHER_PROTOCOL};

    launcher_call(c, &req, NULL, 0, LAUNCHER_EV_HELLO);
}

uint32_t launcher_template(struct launcher_client *c, uint32_t boxes)
{
    struct launcher_req req = {.op = LAUNCHER_TEMPLATE,
                               .template = {.name = "test", .base = "test", .boxes = boxes}};

    return launcher_call(c, &req, NULL, 0, LAUNCHER_EV_OK).template_id;
}

/* A part of a template, from the operator: the supervisor if there is one, else the client. */
static void define(struct launcher_client *c, struct launcher_req *req, const int *fd)
{
    if (c->supervisor < 0) {
        launcher_call(c, req, fd, fd != NULL ? 1 : 0, LAUNCHER_EV_OK);
        return;
    }
    req->seq = c->ticket;
    CHECK_INT(fd_send(c->supervisor, req, sizeof(*req), fd, fd != NULL ? 1 : 0, 0), sizeof(*req));
}

struct launcher_want launcher_ask(struct launcher_client *c, uint32_t id)
{
    struct launcher_req ask = {.op = LAUNCHER_ASK, .template_id = id};
    struct launcher_want want;

    launcher_send(c, &ask, NULL, 0);
    CHECK_INT(fd_recv(c->supervisor, &want, sizeof(want), NULL, 0), sizeof(want));
    CHECK(launcher_want_check(&want, sizeof(want)));
    c->ticket = want.ticket;
    return want;
}

void launcher_wait_place(struct launcher_client *c)
{
    uint32_t id;

    do {
        id = launcher_template(c, 1);
        struct launcher_req stop = {.op = LAUNCHER_STOP, .template_id = id};
        launcher_call(c, &stop, NULL, 0, LAUNCHER_EV_OK);
    } while (id != 0); /* the test's time limit ends this */
}

void launcher_text(struct launcher_client *c, uint32_t id, enum launcher_op op, const char *text)
{
    struct launcher_req req = {.op = op, .template_id = id};

    CHECK_INT(str_copy(req.text, sizeof(req.text), text), 0);
    define(c, &req, NULL);
}

static void add_place(struct launcher_client *c, uint32_t id, const char *host, const char *path)
{
    AUTO_CLOSE int fd = open(host, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct launcher_req req = {.op = LAUNCHER_MOUNT, .template_id = id};

    if (fd < 0 && errno == ENOENT) {
        return; /* not every host has /lib64 */
    }
    CHECK(fd >= 0);
    CHECK_INT(str_copy(req.place.path, sizeof(req.place.path), path), 0);
    ssize_t n = readlinkat(fd, "", req.place.link, sizeof(req.place.link) - 1);
    if (n > 0) {
        req.op = LAUNCHER_LINK;
        define(c, &req, NULL);
    } else {
        define(c, &req, &fd);
    }
}

void launcher_fill(struct launcher_client *c, uint32_t id)
{
    static const char *const needed[] = {"/usr", "/bin", "/lib", "/lib64"};

    for (size_t i = 0; i < ARRAY_LEN(needed); i++) {
        add_place(c, id, needed[i], needed[i]);
    }
    add_place(c, id, getenv("HUSK_LIB_DIR"), "/husk");
}

uint32_t launcher_shell_template(struct launcher_client *c, uint32_t boxes)
{
    uint32_t id = launcher_template(c, boxes);
    struct launcher_req start = {.op = LAUNCHER_START, .template_id = id};

    if (c->supervisor >= 0) {
        (void)launcher_ask(c, id);
    }
    launcher_fill(c, id);
    launcher_text(c, id, LAUNCHER_ARG, "/husk/husk-init");
    launcher_text(c, id, LAUNCHER_ARG, "start");
    launcher_text(c, id, LAUNCHER_ARG, "/bin/bash");
    define(c, &start, NULL);
    if (c->supervisor >= 0) {
        CHECK_INT(launcher_answer(c).event, LAUNCHER_EV_OK);
    }
    return id;
}

void launcher_ends(int ours[LAUNCHER_BOX_FDS], int theirs[LAUNCHER_BOX_FDS])
{
    int pair[2];

    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    ours[0] = pair[0];
    theirs[0] = pair[1];
    for (int i = 1; i < LAUNCHER_BOX_FDS; i++) {
        CHECK_INT(pipe2(pair, O_CLOEXEC), 0);
        ours[i] = i == 1 ? pair[1] : pair[0];
        theirs[i] = i == 1 ? pair[0] : pair[1];
    }
}

struct launcher_box launcher_box(struct launcher_client *c, uint32_t template_id,
                                 uint64_t deadline_ms)
{
    struct launcher_box box;
    struct launcher_req req = {
        .op = LAUNCHER_BOX,
        .template_id = template_id,
        .box = {.limits = limits_default(), .deadline_ms = deadline_ms},
    };
    int theirs[LAUNCHER_BOX_FDS];

    launcher_ends(box.ends, theirs);
    box.id = launcher_call(c, &req, theirs, LAUNCHER_BOX_FDS, LAUNCHER_EV_BOX).box_id;
    for (int i = 0; i < LAUNCHER_BOX_FDS; i++) {
        close(theirs[i]);
    }
    return box;
}

void launcher_box_release(struct launcher_box *box)
{
    for (int i = 0; i < LAUNCHER_BOX_FDS; i++) {
        fd_close(&box->ends[i]);
    }
}
