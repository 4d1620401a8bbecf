/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor's socket: it delivers clients, one after the other, and the definitions of
 * templates that a client has named; see wire/launcher_msg.h.
 *
 * The supervisor is trusted, but the launcher never waits for it: its answer arrives later, or the
 * template's deadline passes.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/units.h"
#include "launcher/launcher.h"

union operator_msg {
    struct launcher_newcomer newcomer;
    struct launcher_req req;
};

static bool take_newcomer(struct launcher *l, const struct launcher_newcomer *msg,
                          struct fd_set_msg *fds)
{
    struct err ignored;

    if (l->client >= 0) {
        hear_last_words(l);
        (void)lose_client(l);
    }
    return take_client(l, take_fd(&fds->fds[0]), msg->uid, &ignored) == 0;
}

bool operator_serve(struct launcher *l)
{
    union operator_msg msg;
    struct fd_set_msg fds = {.n = 0};
    bool goes_on = true;

    ssize_t n = fdlimit_recv(l, l->supervisor, &msg, sizeof(msg), &fds);
    if (n == -EAGAIN) {
        return true;
    }
    if (n == (ssize_t)sizeof(msg.newcomer) && fds.n == 1) {
        goes_on = take_newcomer(l, &msg.newcomer, &fds);
    } else if (n > 0 && launcher_req_check(&msg.req, (size_t)n, fds.n)) {
        permit_operator(l, &msg.req, &fds);
    } else {
        fd_close(&l->supervisor);
        goes_on = l->client >= 0; /* its last client may finish, but not stay */
        l->end_by = clock_ns() + (uint64_t)ORPHAN_MS * NS_PER_MS;
        if (l->next_deadline == 0 || l->end_by < l->next_deadline) {
            l->next_deadline = l->end_by;
        }
    }
    fd_set_release(&fds);
    return goes_on;
}

int operator_ask(struct launcher *l, uint32_t id, uint32_t seq, struct err *e)
{
    struct template *t = &l->templates[id]; /* permit.c has checked id */
    struct launcher_want want = {.template_id = id, .preload = t->preload, .modules = t->modules};

    if (t->ticket != 0) {
        return err_set(e, ERR_INVALID, "template %s has been asked for already", t->name);
    }
    t->ticket = ++l->tickets != 0 ? l->tickets : ++l->tickets;
    want.ticket = t->ticket;
    memcpy(want.base, t->base, sizeof(want.base));
    ssize_t n = l->supervisor < 0
                    ? -ENOTCONN
                    : fd_send(l->supervisor, &want, sizeof(want), NULL, 0, MSG_DONTWAIT);
    if (n != (ssize_t)sizeof(want)) {
        return err_sys(e, n < 0 ? (int)-n : EIO, "ask the supervisor for template %s", t->base);
    }
    t->start_seq = seq;
    template_arm(l, t, ASK_MS);
    return 0;
}
