/* SPDX-License-Identifier: Apache-2.0 */
/* Talking to husk-launcher; see native_impl.h. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "backend/native_impl.h"
#include "base/fd.h"
#include "base/fiber.h"

#define EVENTS_MAX 8192 /* events kept aside: at most a few per box */

int native_gone(struct err *e)
{
    return err_set(e, ERR_LAUNCHER, "husk-launcher is gone, and every box with it");
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

void native_wake_all(struct native *n)
{
    n->gone = true;
    for (struct answer *a = n->awaited; a != NULL; a = a->next) {
        fiber_wake(a->fiber);
    }
}

/* True if it was waited for. */
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

/*
 * Takes one message. 1: an event, in *ret; 0: nothing is there; 2: an answer, handed to its waiter;
 * -1.
 */
static int receive(struct native *n, struct launcher_rep *ret, struct err *e)
{
    struct fd_set_msg fds = {.n = 0};
    ssize_t got = fd_recv(n->socket, ret, sizeof(*ret), &fds, MSG_DONTWAIT);

    if (got == -EAGAIN) {
        return 0;
    }
    if (got == -EMSGSIZE && ret->event == LAUNCHER_EV_BOX) {
        /* No descriptors are left for its counters: the launcher is asked for usage instead. */
        ret->view.n = 0;
        got = (ssize_t)sizeof(*ret);
    }
    if (got <= 0) {
        native_wake_all(n);
        return native_gone(e);
    }
    if (!launcher_rep_check(ret, (size_t)got)) {
        fd_set_release(&fds);
        native_wake_all(n);
        return err_set(e, ERR_PROTOCOL, "husk-launcher sent a malformed answer");
    }
    bool handed = ret->seq != 0 && hand_over(n, ret, &fds);
    fd_set_release(&fds);
    return handed ? 2 : 1;
}

/*
 * The launcher is busy and its socket full: its answers are taken meanwhile, or both sides would
 * wait for ever.
 */
static int wait_for_room(struct native *n, struct err *e)
{
    struct launcher_rep rep;

    if (fiber_self() != NULL) {
        (void)fiber_poll(NULL, 0, 1);
        return n->gone ? native_gone(e) : 0;
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
            return native_gone(e);
        }
        if (wait_for_room(n, e) < 0) {
            return -1;
        }
    }
}

/*
 * An answer that is not the one waited for. 0: kept for later; -1: the launcher could not even
 * start.
 */
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
        return n->gone ? native_gone(e) : 0;
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
    /* No other fiber has run since the send: the answer cannot have been missed. */
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
               native_born *born, void *user, struct err *e)
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
