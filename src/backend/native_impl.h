/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connection to husk-launcher, shared by native.c (talking), native_open.c (its beginning and
 * end) and native_ops.c (what a back end does, as requests).
 *
 * Requests are answered in any order; events come in between. native_call() waits for one answer
 * and sets whatever else arrives aside for native_next(). It never blocks in a send while answers
 * pile up unread. In a fiber the caller of native_next() reads for native_call() as well.
 */
#pragma once

#include "backend/backend.h"

/* Takes the answer to BOX and what it wants of the descriptors, before any later event. */
typedef void native_born(void *user, const struct launcher_rep *rep, struct fd_set_msg *fds);

/* A request whose answer is waited for. Lives on the waiter's stack. */
struct answer {
    struct answer *next;
    uint32_t seq;
    struct fiber *fiber;
    bool there;
    struct launcher_rep rep;
    native_born *born;
    void *user;
};

struct native {
    struct backend backend;
    int socket;
    bool gone; /* the launcher closed its end */
    struct answer *awaited;
    pid_t pid;
    uint32_t seq;
    struct launcher_facts facts;
    struct launcher_rep *events; /* ring of those that native_call() set aside */
    size_t first;
    size_t count;
    size_t cap;
};

extern const struct backend_ops native_ops;

int native_gone(struct err *e);         /* "husk-launcher is gone"; -1 */
void native_wake_all(struct native *n); /* every waiter: nothing will come */

/* Sends without waiting. Descriptors are borrowed. req->seq is set. */
int native_send(struct native *n, struct launcher_req *req, const int *fds, size_t nfds,
                struct err *e);
/* Sends and waits for the answer; an ERROR answer becomes *e. */
int native_call(struct native *n, struct launcher_req *req, const int *fds, size_t nfds,
                struct launcher_rep *ret, struct err *e);
/* The same for a box: its descriptors (borrowed) go, those of its counters come to `born`. */
int native_box(struct native *n, struct launcher_req *req, const int ends[LAUNCHER_BOX_FDS],
               native_born *born, void *user, struct err *e);
/* The next event: 1; nothing there: 0; -1 when the launcher is gone. Does not wait. */
int native_next(struct native *n, struct launcher_rep *ret, struct err *e);

/* native_open.c */
void native_hang_up(struct backend *b);
void native_close(struct backend *b);
int native_adopt(struct backend *b, struct backend_heir *heir, struct err *e);
/* An event in the words of every back end. False: one that is of no interest. */
bool native_translate(const struct launcher_rep *rep, struct backend_event *ret);
