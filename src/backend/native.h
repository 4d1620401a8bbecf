/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The native back end: one husk-launcher process and the connection to it.
 *
 * Requests are answered in any order; events come in between. native_call() waits for one answer
 * and keeps whatever else arrives for native_next(). Never blocks in a send while answers pile up
 * unread.
 *
 * In a fiber native_call() leaves the reading to whoever calls native_next() whenever native_fd()
 * is readable: there must be one (core/engine.c has it).
 */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "base/fd.h"
#include "wire/launcher_msg.h"

struct native;

/* Starts the launcher at path and greets it. ERR_ISOLATION when the host offers less than asked. */
int native_open(const char *path, enum launcher_isolation least, struct native **ret,
                struct err *e);
/*
 * The same over a socket whose other end a supervised launcher has. The socket is taken in every
 * case.
 */
int native_attach(int socket, enum launcher_isolation least, struct native **ret, struct err *e);

/*
 * What an earlier client left: calls fn for each TEMPLATE, BOX, KEPT and EXIT event; fn takes over
 * what it wants of the descriptors. Blocks, so only before there are fibers.
 */
int native_adopt(struct native *n,
                 void (*fn)(void *user, const struct launcher_rep *rep, struct fd_set_msg *fds),
                 void *user, struct err *e);
void native_hang_up(struct native *n); /* says nothing more: every later call fails */
void native_close(struct native *n);   /* ends the launcher and with it every box; NULL is fine */

int native_fd(const struct native *n);         /* readable when native_next() may have something */
bool native_has_event(const struct native *n); /* something was kept aside: no need to poll */
const struct launcher_facts *native_facts(const struct native *n);

/* Sends without waiting. Descriptors are borrowed. req->seq is set. */
int native_send(struct native *n, struct launcher_req *req, const int *fds, size_t nfds,
                struct err *e);

/* Sends and waits for the answer; an ERROR answer becomes *e. */
int native_call(struct native *n, struct launcher_req *req, const int *fds, size_t nfds,
                struct launcher_rep *ret, struct err *e);

/*
 * The same for a box: its descriptors (borrowed) go, those of its counters come back. `born` is
 * called with both before any later event can be seen, such as the end of that box; it takes over
 * what it wants of the descriptors.
 */
int native_box(struct native *n, struct launcher_req *req, const int ends[LAUNCHER_BOX_FDS],
               void (*born)(void *user, const struct launcher_rep *rep, struct fd_set_msg *fds),
               void *user, struct err *e);

/* The next event: 1; nothing there: 0; -1 when the launcher is gone. Does not wait. */
int native_next(struct native *n, struct launcher_rep *ret, struct err *e);
