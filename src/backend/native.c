/* SPDX-License-Identifier: Apache-2.0 */
/* The connection to husk-launcher; see native.h. */
#include "backend/native.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/fiber.h"

#define LAUNCHER_FD 3
#define CLOSE_PATIENCE_MS 5000 /* a launcher that does not clean up by then is killed */
#define EVENTS_MAX 8192        /* events kept aside: at most a few per box */

/* Somebody waits for the answer to a request. Lives on the waiter's stack. */
struct answer {
    struct answer *next;
    uint32_t seq;
    struct fiber *fiber;
    bool there;
    struct launcher_rep rep;
    void (*born)(void *user, const struct launcher_rep *rep, struct fd_set_msg *fds);
    void *user;
};

struct native {
    int socket;
    bool gone; /* the launcher closed its end */
    struct answer *awaited;
    pid_t pid;
    uint32_t seq;
    struct launcher_facts facts;
    struct launcher_rep *events; /* ring of those that native_call() kept aside */
    size_t first;
    size_t count;
    size_t cap;
};

static int gone(struct err *e)
{
    return err_set(e, ERR_LAUNCHER, "husk-launcher is gone, and every box with it");
}

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

static int keep(struct native *n, const struct launcher_rep *rep, struct err *e)
{
    if (n->count == n->cap) {
        size_t cap = n->cap == 0 ? 16 : n->cap * 2;
        struct launcher_rep *events = cap <= EVENTS_MAX ? calloc(cap, sizeof(*events)) : NULL;
        if (events == NULL) {
            return err_sys(e, ENOMEM, "launcher events");
        }
        for (size_t i = 0; i < n->count; i++) {
            events[i] = n->events[(n->first + i) % n->cap];
        }
        free(n->events);
        n->events = events;
        n->cap = cap;
        n->first = 0;
    }
    n->events[(n->first + n->count++) % n->cap] = *rep;
    return 0;
}

static void wake_all(struct native *n)
{
    n->gone = true;
    for (struct answer *a = n->awaited; a != NULL; a = a->next) {
        fiber_wake(a->fiber);
    }
}

/* True if somebody waited for it. */
static bool hand_over(struct native *n, const struct launcher_rep *rep, struct fd_set_msg *fds)
{
    for (struct answer **p = &n->awaited; *p != NULL; p = &(*p)->next) {
        struct answer *a = *p;
        if (a->seq == rep->seq) {
            *p = a->next;
            a->rep = *rep;
            a->there = true;
            if (a->born != NULL && rep->event != LAUNCHER_EV_ERROR) {
                a->born(a->user, rep, fds);
            }
            fiber_wake(a->fiber);
            return true;
        }
    }
    return false;
}

/* Takes one message. 1: an event, in *ret; 0: nothing is there; 2: an answer, handed to its waiter; -1. */
static int receive(struct native *n, struct launcher_rep *ret, struct err *e)
{
    struct fd_set_msg fds = {.n = 0};
    ssize_t got = fd_recv(n->socket, ret, sizeof(*ret), &fds, MSG_DONTWAIT);

    if (got == -EAGAIN) {
        return 0;
    }
    if (got <= 0) {
        wake_all(n);
        return gone(e);
    }
    if (!launcher_rep_check(ret, (size_t)got)) {
        fd_set_release(&fds);
        wake_all(n);
        return err_set(e, ERR_PROTOCOL, "husk-launcher sent a malformed answer");
    }
    bool handed = ret->seq != 0 && hand_over(n, ret, &fds);
    fd_set_release(&fds);
    return handed ? 2 : 1;
}

/* The launcher is busy and its socket full: its answers are taken meanwhile, or both would wait for ever. */
static int wait_for_room(struct native *n, struct err *e)
{
    struct launcher_rep rep;

    if (fiber_self() != NULL) {
        (void)fiber_poll(NULL, 0, 1);
        return n->gone ? gone(e) : 0;
    }
    struct pollfd p = {.fd = n->socket, .events = POLLIN | POLLOUT};
    (void)poll(&p, 1, -1);
    int r = (p.revents & POLLIN) != 0 ? receive(n, &rep, e) : 0;
    return r < 0 || (r == 1 && keep(n, &rep, e) < 0) ? -1 : 0;
}

int native_send(struct native *n, struct launcher_req *req, const int *fds, size_t nfds,
                struct err *e)
{
    req->seq = ++n->seq == 0 ? ++n->seq : n->seq;
    for (;;) {
        ssize_t sent = fd_send(n->socket, req, sizeof(*req), fds, nfds, MSG_DONTWAIT);
        if (sent == (ssize_t)sizeof(*req)) {
            return 0;
        }
        if (sent != -EAGAIN) {
            return gone(e);
        }
        if (wait_for_room(n, e) < 0) {
            return -1;
        }
    }
}

/* An answer that is not the one waited for. 0: kept for later; -1: the launcher could not even start. */
static int set_aside(struct native *n, const struct launcher_rep *rep, struct err *e)
{
    if (rep->event == LAUNCHER_EV_ERROR && rep->seq == 0 && n->facts.cgroup[0] == '\0') {
        *e = rep->err;
        return -1;
    }
    return keep(n, rep, e);
}

static int wait_once(struct native *n, struct err *e)
{
    struct launcher_rep rep;

    if (fiber_self() != NULL) {
        (void)fiber_poll(NULL, 0, -1);
        return n->gone ? gone(e) : 0;
    }
    int r = receive(n, &rep, e);
    if (r == 0) {
        struct pollfd p = {.fd = n->socket, .events = POLLIN};
        (void)poll(&p, 1, -1);
    }
    return r < 0 || (r == 1 && set_aside(n, &rep, e) < 0) ? -1 : 0;
}

static void forget(struct native *n, const struct answer *a)
{
    for (struct answer **p = &n->awaited; *p != NULL; p = &(*p)->next) {
        if (*p == a) {
            *p = a->next;
            return;
        }
    }
}

/* Waits for the answer to the request of that number. */
static int await(struct native *n, struct answer *a, struct err *e)
{
    while (!a->there) {
        if (wait_once(n, e) < 0 && !a->there) {
            return -1;
        }
    }
    if (a->rep.event == LAUNCHER_EV_ERROR) {
        *e = a->rep.err;
        return -1;
    }
    return 0;
}

static int ask(struct native *n, struct launcher_req *req, const int *fds, size_t nfds,
               struct answer *a, struct err *e)
{
    if (native_send(n, req, fds, nfds, e) < 0) {
        return -1;
    }
    /* Nobody reads between the send and this: the answer cannot have been missed. */
    a->seq = req->seq;
    a->fiber = fiber_self();
    a->next = n->awaited;
    n->awaited = a;
    int r = await(n, a, e);
    forget(n, a); /* the answer has taken it off the list, a lost launcher has not */
    return r;
}

int native_call(struct native *n, struct launcher_req *req, const int *fds, size_t nfds,
                struct launcher_rep *ret, struct err *e)
{
    struct answer a = {0};

    if (ask(n, req, fds, nfds, &a, e) < 0) {
        return -1;
    }
    *ret = a.rep;
    return 0;
}

int native_box(struct native *n, struct launcher_req *req, const int ends[LAUNCHER_BOX_FDS],
               void (*born)(void *user, const struct launcher_rep *rep, struct fd_set_msg *fds),
               void *user, struct err *e)
{
    struct answer a = {.born = born, .user = user};

    return ask(n, req, ends, LAUNCHER_BOX_FDS, &a, e);
}

int native_next(struct native *n, struct launcher_rep *ret, struct err *e)
{
    int r;

    if (n->count > 0) {
        *ret = n->events[n->first];
        n->first = (n->first + 1) % n->cap;
        n->count--;
        return 1;
    }
    while ((r = receive(n, ret, e)) == 2) {
    }
    return r;
}

bool native_has_event(const struct native *n)
{
    return n->count > 0;
}

int native_fd(const struct native *n)
{
    return n->socket;
}

const struct launcher_facts *native_facts(const struct native *n)
{
    return &n->facts;
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
    n->socket = -1;
    return n;
}

int native_open(const char *path, enum launcher_isolation least, struct native **ret, struct err *e)
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
    *ret = n;
    return 0;

fail:
    native_close(n);
    return -1;
}

int native_attach(int socket, enum launcher_isolation least, struct native **ret, struct err *e)
{
    struct native *n = new_native(e);

    if (n == NULL) {
        fd_close(&socket);
        return -1;
    }
    n->socket = socket;
    if (greet(n, least, e) < 0) {
        native_close(n);
        return -1;
    }
    *ret = n;
    return 0;
}

int native_adopt(struct native *n,
                 void (*fn)(void *user, const struct launcher_rep *rep, struct fd_set_msg *fds),
                 void *user, struct err *e)
{
    struct launcher_req req = {.op = LAUNCHER_ADOPT};
    struct launcher_rep rep;

    if (native_send(n, &req, NULL, 0, e) < 0) {
        return -1;
    }
    for (;;) {
        struct fd_set_msg fds = {.n = 0};
        ssize_t got = fd_recv(n->socket, &rep, sizeof(rep), &fds, 0);
        if (got <= 0 || !launcher_rep_check(&rep, (size_t)got)) {
            fd_set_release(&fds);
            return gone(e);
        }
        bool done = rep.seq == req.seq;
        if (!done) {
            fn(user, &rep, &fds);
        }
        fd_set_release(&fds);
        if (done) {
            return 0;
        }
    }
}

/* The launcher ends by itself when its socket closes; a stuck one is killed, and its guard cleans up. */
static void wait_for_launcher(pid_t pid)
{
    const struct timespec pause = {.tv_nsec = 1000000};

    for (int waited = 0; waited < CLOSE_PATIENCE_MS; waited++) {
        if (waitpid(pid, NULL, WNOHANG) != 0) {
            return;
        }
        nanosleep(&pause, NULL);
    }
    kill(pid, SIGKILL); /* our own child, not yet waited for */
    (void)waitpid(pid, NULL, 0);
}

void native_hang_up(struct native *n)
{
    fd_close(&n->socket);
    wake_all(n);
}

void native_close(struct native *n)
{
    if (n == NULL) {
        return;
    }
    fd_close(&n->socket);
    if (n->pid > 0) {
        wait_for_launcher(n->pid);
    }
    free(n->events);
    free(n);
}
