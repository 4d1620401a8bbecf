/* SPDX-License-Identifier: Apache-2.0 */
/* See definitions.h. */
#include "supervisor/definitions.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/log.h"
#include "wire/launcher_msg.h"

struct answer {
    int launcher;
    const struct launcher_want *want;
};

static int put(void *user, struct launcher_req *req, const int *fd, struct err *e)
{
    const struct answer *a = user;

    req->template_id = a->want->template_id;
    req->seq = a->want->ticket;
    ssize_t n = fd_send(a->launcher, req, sizeof(*req), fd, fd != NULL ? 1 : 0, MSG_NOSIGNAL);
    return n == (ssize_t)sizeof(*req) ? 0
                                      : err_sys(e, n < 0 ? (int)-n : EIO, "answer the launcher");
}

static void answer(const struct supervisor_options *o, int launcher,
                   const struct launcher_want *want)
{
    struct answer a = {.launcher = launcher, .want = want};
    struct launcher_req fail = {.op = LAUNCHER_FAIL};
    struct err e = {0};
    struct err ignored;

    if (o->define(o->user, want, put, &a, &e) == 0) {
        return;
    }
    log_warn("template_not_defined", "template=%s: %s", want->base, e.msg);
    fail.fail = e;
    (void)put(&a, &fail, NULL, &ignored);
}

bool definitions_serve(const struct supervisor_options *o, int launcher)
{
    struct launcher_want want;

    ssize_t n = fd_recv(launcher, &want, sizeof(want), NULL, MSG_DONTWAIT);
    if (n == -EAGAIN || n == -EINTR) {
        return true;
    }
    if (n <= 0 || !launcher_want_check(&want, (size_t)n)) {
        return false;
    }
    answer(o, launcher, &want);
    return true;
}
