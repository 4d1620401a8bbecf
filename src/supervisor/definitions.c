/* SPDX-License-Identifier: Apache-2.0 */
/* See definitions.h. Must not wait for the launcher: a stuck one would block the supervisor. */
#include "supervisor/definitions.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/log.h"
#include "wire/launcher_msg.h"

/* gcc 12's analyzer cannot follow memory that a list owns; drop_first() frees it. */
#if defined(__GNUC__) && !defined(__clang__)
#    pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

#define OWED_MAX 1024 /* more frames than a definition has */

struct definitions_frame {
    struct definitions_frame *next;
    struct launcher_req req;
    int fd; /* -1: none */
};

struct answer {
    struct definitions *owed;
    int launcher;
    const struct launcher_want *want;
};

/* 0, or -errno. */
static int send_frame(int launcher, const struct launcher_req *req, const int *fd)
{
    ssize_t n =
        fd_send(launcher, req, sizeof(*req), fd, fd != NULL ? 1 : 0, MSG_DONTWAIT | MSG_NOSIGNAL);

    return n == (ssize_t)sizeof(*req) ? 0 : n < 0 ? (int)n : -EIO;
}

static int owe(struct definitions *d, const struct launcher_req *req, const int *fd)
{
    struct definitions_frame *f = d->n < OWED_MAX ? malloc(sizeof(*f)) : NULL;

    if (f == NULL) {
        return -ENOMEM;
    }
    *f = (struct definitions_frame){.req = *req, .fd = -1};
    if (fd != NULL && (f->fd = fcntl(*fd, F_DUPFD_CLOEXEC, 0)) < 0) {
        int r = -errno;
        free(f);
        return r;
    }
    *(d->first != NULL ? &d->last->next : &d->first) = f;
    d->last = f;
    d->n++;
    return 0;
}

static int put(void *user, struct launcher_req *req, const int *fd, struct err *e)
{
    const struct answer *a = user;

    req->template_id = a->want->template_id;
    req->seq = a->want->ticket;
    int r = definitions_owe(a->owed) ? -EAGAIN : send_frame(a->launcher, req, fd);
    if (r == -EAGAIN) {
        r = owe(a->owed, req, fd);
    }
    return r < 0 ? err_sys(e, -r, "cannot answer the launcher") : 0;
}

static void answer(struct definitions *d, const struct supervisor_options *o, int launcher,
                   const struct launcher_want *want)
{
    struct answer a = {.owed = d, .launcher = launcher, .want = want};
    const struct definition_wanted wanted = {
        .base = want->base, .preload = want->preload != 0, .modules = want->modules};
    struct launcher_req fail = {.op = LAUNCHER_FAIL};
    struct err e = {0};
    struct err ignored;

    if (o->define(o->user, &wanted, put, &a, &e) == 0) {
        return;
    }
    log_warn("template_not_defined", "template=%s: %s", want->base, e.msg);
    fail.fail = e;
    (void)put(&a, &fail, NULL, &ignored);
}

bool definitions_serve(struct definitions *d, const struct supervisor_options *o, int launcher)
{
    struct launcher_want want;

    if (definitions_owe(d)) {
        return true;
    }
    ssize_t n = fd_recv(launcher, &want, sizeof(want), NULL, MSG_DONTWAIT);
    if (n == -EAGAIN || n == -EINTR) {
        return true;
    }
    if (n <= 0 || !launcher_want_check(&want, (size_t)n)) {
        return false;
    }
    answer(d, o, launcher, &want);
    return true;
}

bool definitions_owe(const struct definitions *d)
{
    return d->first != NULL;
}

static void drop_first(struct definitions *d)
{
    struct definitions_frame *f = d->first;

    d->first = f->next;
    d->n--;
    fd_close(&f->fd);
    free(f);
}

void definitions_tell(struct definitions *d, int launcher)
{
    int r = 0;

    while (d->first != NULL && r == 0) {
        r = send_frame(launcher, &d->first->req, d->first->fd >= 0 ? &d->first->fd : NULL);
        if (r == 0) {
            drop_first(d);
        }
    }
    /* the launcher's time limit for the template ends it */
    if (r < 0 && r != -EAGAIN && r != -EINTR) {
        definitions_drop(d);
    }
}

void definitions_drop(struct definitions *d)
{
    while (d->first != NULL) {
        drop_first(d);
    }
}
