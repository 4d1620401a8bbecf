/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guard: a forked bystander that cleans up after a killed launcher.
 *
 * Boxes need no guard: their zygotes die with the launcher and take them along. Two things do:
 *
 *   - Cgroup directories: the kernel does not remove them.
 *   - Leases on host ids (lease.h): they must not end before the last box has. The guard holds a
 *     second descriptor of each lease, and a pidfd of each zygote. A zygote is the first process of
 *     a pid namespace: the kernel reports its end after all of its boxes have ended.
 *
 * Must not: do anything while the launcher lives, except receive and close descriptors.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "box/sys.h"
#include "launcher/caps.h"
#include "launcher/launcher.h"

enum guard_op { GUARD_LEASE, GUARD_ZYGOTE, GUARD_DROP };

struct guard_note {
    uint32_t op;
    uint32_t template_id;
};

static struct held {
    int lease;
    int zygote;
} held[TEMPLATES_MAX];

static void take_note(const struct guard_note *note, struct fd_set_msg *fds)
{
    struct held *h = &held[note->template_id];

    if (note->op == GUARD_DROP) {
        fd_close(&h->lease);
        fd_close(&h->zygote);
    } else if (fds->n == 1) {
        int *place = note->op == GUARD_LEASE ? &h->lease : &h->zygote;
        fd_close(place);
        *place = take_fd(&fds->fds[0]);
        fds->n = 0;
    }
}

/* Returns when the launcher is gone. */
static void take_notes(int launcher)
{
    for (;;) {
        struct guard_note note;
        struct fd_set_msg fds = {.n = 0};
        ssize_t n = fd_recv(launcher, &note, sizeof(note), &fds, 0);
        if (n == -EINTR) {
            continue;
        }
        if (n <= 0) {
            return;
        }
        if (n == (ssize_t)sizeof(note) && note.template_id < TEMPLATES_MAX) {
            take_note(&note, &fds);
        }
        fd_set_release(&fds);
    }
}

/* However long the kernel takes to end their boxes. */
static void await_zygotes(void)
{
    for (size_t i = 0; i < TEMPLATES_MAX; i++) {
        struct pollfd p = {.fd = held[i].zygote, .events = POLLIN};
        if (p.fd >= 0) {
            (void)sys_pidfd_signal(p.fd, SIGKILL);
            while (poll(&p, 1, -1) < 0 && errno == EINTR) {
            }
        }
    }
}

static void stand_by(struct launcher *l, int launcher)
{
    unsigned lent = cgroup_host_is_ours(l->cgroups) ? 0 : CAPS_LENT;
    struct err e;

    fd_close(&l->client);
    fd_close(&l->supervisor);
    for (size_t i = 0; i < TEMPLATES_MAX; i++) {
        held[i] = (struct held){.lease = -1, .zygote = -1};
    }
    if (caps_drop(l->single_id ? 0 : CAPS_GUARD | lent, &e) < 0 ||
        fd_send(launcher, "", 1, NULL, 0, 0) != 1) {
        return;
    }
    take_notes(launcher);
    cgroup_host_close(l->cgroups);
    await_zygotes();
    _exit(0); /* and the leases end */
}

int guard_start(struct launcher *l, struct err *e)
{
    pid_t pid; /* it ends after us */

    l->guard = bystander_start(l, &(struct bystander){"husk-guard", stand_by, &pid}, e);
    return l->guard < 0 ? -1 : 0;
}

static int tell(const struct launcher *l, enum guard_op op, uint32_t id, const int *fds, size_t n,
                struct err *e)
{
    const struct guard_note note = {.op = op, .template_id = id};
    ssize_t sent = fd_send(l->guard, &note, sizeof(note), fds, n, MSG_DONTWAIT);

    if (sent != (ssize_t)sizeof(note)) {
        return err_sys(e, sent < 0 ? (int)-sent : EIO, "send to the guard: restart husk");
    }
    return 0;
}

int guard_hold(const struct launcher *l, uint32_t template_id, struct err *e)
{
    const struct template *t = &l->templates[template_id];

    if (t->lease.fd >= 0 && tell(l, GUARD_LEASE, template_id, &t->lease.fd, 1, e) < 0) {
        return -1;
    }
    return t->pidfd < 0 ? 0 : tell(l, GUARD_ZYGOTE, template_id, &t->pidfd, 1, e);
}

void guard_drop(const struct launcher *l, uint32_t template_id)
{
    struct err ignored; /* a guard that is gone holds nothing */

    (void)tell(l, GUARD_DROP, template_id, NULL, 0, &ignored);
}
