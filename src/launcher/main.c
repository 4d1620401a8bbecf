/* SPDX-License-Identifier: Apache-2.0 */
/*
 * husk-launcher: start-up and the loop; see launcher.h.
 *
 * Started by its client with one end of a SEQPACKET socketpair as descriptor 3. Ends with that
 * socket, and everything it made ends with it. With --supervised the descriptor is the
 * supervisor's, which sends the sockets of clients through it, one after the other: then the
 * launcher lives as long as the supervisor (keep.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/signals.h"
#include "base/str.h"
#include "base/units.h"
#include "box/landlock.h"
#include "launcher/caps.h"
#include "launcher/launcher.h"

#define FIRST_FD 3          /* the client's socket, or the supervisor's */
#define SEND_TIMEOUT_S 10   /* a client that does not read for so long is treated as gone */
#define LAST_WORDS_MAX 1024 /* more than a socket holds */

static struct launcher the_launcher; /* static: it is large, and there is one */

void reply_with(struct launcher *l, const struct launcher_rep *rep, const int *fds, size_t n)
{
    if (l->client < 0) {
        return; /* what matters is kept for the next client */
    }
    ssize_t sent = fd_send(l->client, rep, sizeof(*rep), fds, n, 0);

    if (sent != (ssize_t)sizeof(*rep)) {
        (void)shutdown(l->client, SHUT_RDWR); /* the loop sees the end of file */
    }
}

void reply(struct launcher *l, const struct launcher_rep *rep)
{
    reply_with(l, rep, NULL, 0);
}

void reply_ok(struct launcher *l, const struct launcher_req *req)
{
    struct launcher_rep rep = {
        .event = LAUNCHER_EV_OK, .seq = req->seq, .template_id = req->template_id};

    reply(l, &rep);
}

void reply_error(struct launcher *l, uint32_t seq, uint32_t template_id, const struct err *e)
{
    struct launcher_rep rep = {
        .event = LAUNCHER_EV_ERROR, .seq = seq, .template_id = template_id, .err = *e};

    reply(l, &rep);
}

/* 1: served one; 0: there is none; -1: the connection is over. */
static int serve_client(struct launcher *l, bool has_successor)
{
    struct launcher_req req;
    struct fd_set_msg fds = {.n = 0};

    ssize_t n = fdlimit_recv(l, l->client, &req, sizeof(req), &fds);
    if (n == -EAGAIN) {
        return 0;
    }
    bool ok = n > 0 && launcher_req_check(&req, (size_t)n, fds.n);
    if (ok && (!has_successor || req.op == LAUNCHER_KEEP || req.op == LAUNCHER_DROP)) {
        ok = permit_client(l, &req, &fds);
    }
    closer_close_set(l, &fds);
    return ok ? 1 : -1;
}

/*
 * The socket of a client that was killed a moment ago may still hold KEEP requests, behind requests
 * for boxes that waited for their turn. All other requests are dropped.
 */
void hear_last_words(struct launcher *l)
{
    int n = 0;

    while (n++ < LAST_WORDS_MAX && serve_client(l, true) > 0) {
    }
}

int take_client(struct launcher *l, int fd, uid_t uid, struct err *e)
{
    struct timeval timeout = {.tv_sec = SEND_TIMEOUT_S};

    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) {
        return err_sys(e, errno, "take a client");
    }
    l->client = fd;
    l->client_uid = uid;
    l->greeted = false;
    return 0;
}

bool lose_client(struct launcher *l)
{
    closer_close_one(l, &l->client); /* with what it may have sent and we have not read */
    if (l->supervisor < 0) {
        return false;
    }
    keep_client_gone(l);
    return true;
}

static int poll_timeout(const struct launcher *l)
{
    if (l->next_deadline == 0) {
        return -1;
    }
    uint64_t now = clock_ns();
    if (l->next_deadline <= now) {
        return 0;
    }
    uint64_t ms = (l->next_deadline - now + NS_PER_MS - 1) / NS_PER_MS;
    return ms > 3600000u ? 3600000 : (int)ms;
}

static size_t collect(const struct launcher *l, struct pollfd *p, uint32_t *ids)
{
    size_t n = 2; /* then three of each template */
    bool busy = l->ending >= TEARDOWN_MAX || l->spawning >= SPAWNS_MAX;

    /* Back-pressure: new work waits in the socket while old work is being cleared away. */
    p[0] = (struct pollfd){.fd = l->client, .events = busy ? 0 : POLLIN};
    p[1] = (struct pollfd){.fd = l->supervisor, .events = POLLIN};
    for (uint32_t i = 0; i < TEMPLATES_MAX; i++) {
        if (l->templates[i].state >= TEMPLATE_STARTING) {
            p[n] = (struct pollfd){.fd = l->templates[i].socket, .events = POLLIN};
            ids[n++] = i;
            p[n] = (struct pollfd){.fd = l->templates[i].verdict, .events = POLLIN};
            ids[n++] = i;
            p[n] = (struct pollfd){.fd = l->templates[i].pidfd, .events = POLLIN};
            ids[n++] = i;
        }
    }
    return n;
}

/* Messages of the zygote, the inspector's verdict, and the zygote's end. */
static void serve_template(struct launcher *l, uint32_t id, const struct pollfd p[3])
{
    const struct template *t = &l->templates[id];

    if ((p[0].revents & (POLLIN | POLLHUP)) != 0) {
        template_serve(l, id);
    }
    if (p[1].revents != 0 && t->state >= TEMPLATE_STARTING && t->verdict >= 0) {
        inspect_serve(l, id);
    }
    if (p[2].revents != 0 && t->state >= TEMPLATE_STARTING) {
        template_died(l, id);
        template_await(l, id);
    }
}

static void loop(struct launcher *l)
{
    struct pollfd p[2 + 3 * TEMPLATES_MAX];
    uint32_t ids[2 + 3 * TEMPLATES_MAX];

    for (;;) {
        size_t n = collect(l, p, ids);
        if (poll(p, n, poll_timeout(l)) < 0 && errno != EINTR) {
            return;
        }
        /* Zygotes before the client: the box of a request may just have ended. */
        for (size_t i = 2; i + 2 < n; i += 3) {
            serve_template(l, ids[i], &p[i]);
        }
        if (l->next_deadline != 0 && l->next_deadline <= clock_ns()) {
            box_expire(l, clock_ns());
        }
        if (l->end_by != 0 && l->end_by <= clock_ns()) {
            return;
        }
        if (p[0].revents != 0 && serve_client(l, false) < 0 && !lose_client(l)) {
            return;
        }
        if (p[1].revents != 0 && !operator_serve(l)) {
            return;
        }
    }
}

static void note_missing(struct launcher *l, const char *layer)
{
    size_t used = strlen(l->facts.missing);

    snprintf(l->facts.missing + used, sizeof(l->facts.missing) - used, "%s%s", used > 0 ? ", " : "",
             layer);
}

/* A piped core handler of the host would run for a crash in a box unless the limit is exactly 1. */
static void check_core_limit(struct launcher *l)
{
    struct rlimit core;
    char pattern[8] = "";

    if (getrlimit(RLIMIT_CORE, &core) < 0 || core.rlim_max >= 1) {
        return;
    }
    core.rlim_cur = core.rlim_max = 1;
    (void)fd_read_file(AT_FDCWD, "/proc/sys/kernel/core_pattern", pattern, sizeof(pattern));
    if (setrlimit(RLIMIT_CORE, &core) < 0 && pattern[0] == '|') {
        note_missing(l, "core dump limit");
    }
}

static int open_cgroups(struct launcher *l, struct err *e)
{
    static const char *const kinds[] = {"none", "v1", "v2", "hybrid"};
    char instance[64];

    int r = cgroup_self_name(instance, sizeof(instance));
    if (r < 0) {
        return err_sys(e, -r, "name our cgroup");
    }
    (void)cgroup_sweep();
    if (cgroup_host_open(instance, false, &l->cgroups, e) < 0) {
        return -1;
    }
    l->watch_oom = cgroup_oom_needs_watch(l->cgroups);
    const struct cgroup_facts *f = cgroup_host_facts(l->cgroups);
    l->facts.can_freeze = f->freeze;
    bool limits = f->memory || f->cpu || f->pids;
    (void)str_copy(l->facts.cgroup, sizeof(l->facts.cgroup), kinds[limits ? f->kind : CGROUP_NONE]);
    if (!f->memory || !f->cpu || !f->pids) {
        note_missing(l, "cgroup limits");
    }
    return 0;
}

static int prepare(struct launcher *l, bool supervised, struct err *e)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);

    l->client = -1;
    l->supervisor = -1;
    if (getsockopt(FIRST_FD, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0) {
        return err_sys(e, errno, "husk-launcher is started by husk");
    }
    if (supervised) {
        l->supervised = true;
        l->supervisor = FIRST_FD;
        if (fcntl(FIRST_FD, F_SETFD, FD_CLOEXEC) < 0) {
            return err_sys(e, errno, "prepare");
        }
    } else if (take_client(l, FIRST_FD, peer.uid, e) < 0) {
        return -1;
    }
    check_core_limit(l);
    rand_bytes(&l->facts.instance, sizeof(l->facts.instance));
    l->facts.landlock_abi = landlock_abi();
    if (l->facts.landlock_abi == 0) {
        note_missing(l, "landlock");
    }
    return 0;
}

/* The limit of files and /proc; then ids and cgroups, which depend on being root. */
static int prepare_rights(struct launcher *l, struct err *e)
{
    if (fdlimit_open(l, e) < 0 || pidfd_check_proc(e) < 0) {
        return -1;
    }
    if (geteuid() != 0) {
        /*
         * Cgroups first: once inside the namespace, a delegated subtree could no longer be found by
         * id.
         */
        if (open_cgroups(l, e) < 0 || rootless_enter(e) < 0) {
            return -1;
        }
        l->single_id = true;
        note_missing(l, "private ids");
    } else {
        /* Only as root: else it would lose its own /proc files, and its user may read it anyway. */
        if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) {
            return err_sys(e, errno, "prctl");
        }
        if (open_cgroups(l, e) < 0) {
            return -1;
        }
    }
    l->facts.isolation = l->facts.missing[0] == '\0' ? LAUNCHER_FULL : LAUNCHER_USERNS;
    if (guard_start(l, e) < 0 || closer_start(l, e) < 0) {
        return -1;
    }
    /* Last: processes that keep other rights than ours have been forked. */
    unsigned lent = cgroup_host_is_ours(l->cgroups) ? 0 : CAPS_LENT;
    return caps_drop(l->single_id ? CAPS_ROOTLESS : CAPS_LAUNCHER | lent, e);
}

static void shut_down(struct launcher *l)
{
    for (uint32_t i = 0; i < TEMPLATES_MAX; i++) {
        if (l->templates[i].state != TEMPLATE_FREE) {
            template_stop(l, i);
        }
    }
    for (uint32_t i = 0; i < TEMPLATES_MAX; i++) {
        template_await(l, i);
    }
    cgroup_host_close(l->cgroups);
}

static void wait_for_clients(int signum)
{
}

int main(int argc, char **argv)
{
    struct launcher *l = &the_launcher;
    struct err e = {0};
    bool supervised = argc == 2 && str_eq(argv[1], "--supervised");

    prctl(PR_SET_NAME, "husk-launcher", 0, 0, 0); /* the supervisor starts us by descriptor */
    signals_reset();
    if (supervised) {
        /*
         * A service manager signals every process of a service. The launcher ends when the
         * supervisor closes its socket: until then files are saved out of boxes. A handler, since
         * an ignored signal would stay ignored in all boxes.
         */
        sigaction(SIGTERM,
                  &(struct sigaction){.sa_handler = wait_for_clients, .sa_flags = SA_RESTART},
                  NULL);
    }
    if (prepare(l, supervised, &e) < 0 || (prepare_rights(l, &e) < 0 && supervised)) {
        fprintf(stderr, "husk-launcher: %s\n", e.msg);
        return 1;
    }
    if (e.code != ERR_NONE) {
        struct launcher_req hello;
        /* Closing a socket with unread data would drop our answer. */
        (void)fd_recv(l->client, &hello, sizeof(hello), NULL, 0);
        reply_error(l, 0, 0, &e);
        return 1;
    }
    loop(l);
    shut_down(l);
    return 0;
}
