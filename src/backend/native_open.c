/* SPDX-License-Identifier: Apache-2.0 */
/* Beginning and end of the connection to husk-launcher, and what an earlier one left. */
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backend/native.h"
#include "backend/native_impl.h"
#include "base/fd.h"
#include "base/units.h"

#define LAUNCHER_FD 3
#define CLOSE_PATIENCE_MS 5000 /* a launcher that does not clean up by then is killed */

/* Runs in its own session, so that a terminal's Ctrl-C reaches only us and we decide. */
static int spawn_launcher(const char *path, int socket, pid_t *ret, struct err *e)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    char *argv[] = {(char *)path, NULL};
    sigset_t none;

    if (access(path, X_OK) < 0) {
        return err_set(e, ERR_LAUNCHER, "there is no husk-launcher at %s: run `make build`", path);
    }
    sigemptyset(&none);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attr);
    posix_spawn_file_actions_adddup2(&actions, socket, LAUNCHER_FD);
    posix_spawn_file_actions_addclosefrom_np(&actions, LAUNCHER_FD + 1);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
    int r = posix_spawn(ret, path, &actions, &attr, argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&actions);
    if (r != 0) {
        return err_sys(e, r, "start %s", path);
    }
    return 0;
}

static int greet(struct native *n, enum launcher_isolation least, struct err *e)
{
    struct launcher_req hello = {
        .op = LAUNCHER_HELLO,
        .hello = {.protocol = LAUNCHER_PROTOCOL, .isolation = least},
    };
    struct launcher_rep rep;

    if (native_call(n, &hello, NULL, 0, &rep, e) < 0) {
        return -1;
    }
    n->facts = rep.facts;
    return 0;
}

static struct native *new_native(struct err *e)
{
    struct native *n = calloc(1, sizeof(*n));

    if (n == NULL) {
        err_sys(e, ENOMEM, "open the native back end");
        return NULL;
    }
    n->backend.ops = &native_ops;
    n->socket = -1;
    return n;
}

int native_open(const char *path, enum launcher_isolation least, struct backend **ret,
                struct err *e)
{
    int sockets[2];

    struct native *n = new_native(e);
    if (n == NULL) {
        return -1;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0) {
        err_sys(e, errno, "socketpair");
        goto fail;
    }
    n->socket = sockets[0];
    int spawned = spawn_launcher(path, sockets[1], &n->pid, e);
    close(sockets[1]);
    if (spawned < 0 || greet(n, least, e) < 0) {
        goto fail;
    }
    *ret = &n->backend;
    return 0;

fail:
    native_close(&n->backend);
    return -1;
}

int native_attach(int socket, enum launcher_isolation least, struct backend **ret, struct err *e)
{
    struct native *n = new_native(e);

    if (n == NULL) {
        fd_close(&socket);
        return -1;
    }
    n->socket = socket;
    if (greet(n, least, e) < 0) {
        native_close(&n->backend);
        return -1;
    }
    *ret = &n->backend;
    return 0;
}

static void hand_on(const struct backend_heir *heir, const struct launcher_rep *rep,
                    struct fd_set_msg *fds)
{
    struct backend_event event;

    if (rep->event == LAUNCHER_EV_TEMPLATE) {
        const struct backend_left left = {.id = rep->template_id,
                                          .name = rep->template.name,
                                          .boxes = rep->template.boxes,
                                          .definition = rep->template.definition,
                                          .age_ms = rep->template.age_ms,
                                          .made = rep->template.made,
                                          .note = rep->template.note};
        heir->on_template(heir->user, &left);
    } else if (rep->event == LAUNCHER_EV_BOX) {
        struct backend_birth birth = {.id = rep->box_id,
                                      .facts = &rep->facts,
                                      .view = &rep->view,
                                      .counters = fds,
                                      .ends = {-1, -1, -1, -1}};
        heir->on_guest(heir->user, rep->template_id, &birth);
    } else if (rep->event == LAUNCHER_EV_KEPT) {
        heir->on_kept(heir->user, rep->box_id, rep->kept.slot, rep->kept.note, fds);
    } else if (native_translate(rep, &event)) {
        heir->on_event(heir->user, &event);
    }
}

int native_adopt(struct backend *b, struct backend_heir *heir, struct err *e)
{
    struct native *n = (struct native *)b;
    struct launcher_req req = {.op = LAUNCHER_ADOPT, .adopt.epoch = heir->epoch};
    struct launcher_rep rep;

    if (native_send(n, &req, NULL, 0, e) < 0) {
        return -1;
    }
    for (;;) {
        struct fd_set_msg fds = {.n = 0};
        ssize_t got = fd_recv(n->socket, &rep, sizeof(rep), &fds, 0);
        if (got <= 0 || !launcher_rep_check(&rep, (size_t)got)) {
            fd_set_release(&fds);
            return native_gone(e);
        }
        bool done = rep.seq == req.seq;
        if (!done) {
            hand_on(heir, &rep, &fds);
        } else if (rep.event == LAUNCHER_EV_OK) {
            heir->first_epoch = rep.adopted.epoch;
        }
        fd_set_release(&fds);
        if (done) {
            return 0;
        }
    }
}

/*
 * The launcher ends by itself when its socket closes; a stuck one is killed, and its guard cleans
 * up.
 */
static void wait_for_launcher(pid_t pid)
{
    const struct timespec pause = {.tv_nsec = NS_PER_MS};

    for (int waited = 0; waited < CLOSE_PATIENCE_MS; waited++) {
        if (waitpid(pid, NULL, WNOHANG) != 0) {
            return;
        }
        nanosleep(&pause, NULL);
    }
    kill(pid, SIGKILL); /* our own child, not yet waited for */
    (void)waitpid(pid, NULL, 0);
}

void native_hang_up(struct backend *b)
{
    struct native *n = (struct native *)b;

    fd_close(&n->socket);
    native_wake_all(n);
}

void native_close(struct backend *b)
{
    struct native *n = (struct native *)b;

    fd_close(&n->socket);
    if (n->pid > 0) {
        wait_for_launcher(n->pid);
    }
    free(n->events);
    free(n);
}
