/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inspects boxes from outside: does this one have the filter, the ids and the empty capability sets
 * that receipts promise?
 *
 * A box is set up by code in its zygote's memory, and a module that the zygote imported can have
 * changed that memory. So the first box of a zygote that imported something is a probe: it is
 * inspected and ended before the template may be used. Later boxes are inspected at random, when
 * their client is done with them, or at the first cell of a session. A box that does not fit ends
 * its template, because all of its boxes are suspect.
 *
 * A child inspects, because tracing waits for the traced process and the launcher must not wait.
 * The child reports what the kernel shows and decides nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/str.h"
#include "base/units.h"
#include "box/seccomp.h"
#include "box/setup.h"
#include "box/sys.h"
#include "launcher/launcher.h"

#define READY_MS 10000 /* for a probe to be set up, on a busy machine */
#define STOP_MS 1000   /* for a traced process to stop */
#define ONE_IN 64      /* boxes are inspected after the probe */
#define STATUS_SIZE 4096
#define FILTER_MAX 4096 /* BPF_MAXINSNS */

/* What the child inspects. */
struct look {
    int pidfd;
    int control; /* of a probe: readable when the box is set up; -1: it is already */
    const struct seccomp_program *filter;
    uint64_t uid;
    bool can_trace; /* reading filters takes rights on the host */
};

/* ---- in the child ---- */

static int no_fit(struct inspect_verdict *v, const char *what, const char *which)
{
    v->result = INSPECT_NO_FIT;
    (void)str_format(v->why, sizeof(v->why), "%s (%s)", what, which);
    return -1;
}

static int gone(struct inspect_verdict *v)
{
    v->result = INSPECT_NOT_SEEN;
    return -1;
}

/* "\nKey:\tvalue" of a status file. */
static bool has_line(const char *status, const char *key, const char *value)
{
    char line[96];

    return str_format(line, sizeof(line), "\n%s:\t%s\n", key, value) == 0 &&
           strstr(status, line) != NULL;
}

static int look_at_status(const struct look *l, pid_t pid, struct inspect_verdict *v)
{
    static const char *const none[] = {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"};
    char status[STATUS_SIZE];
    char path[64];
    char ids[96];

    (void)str_format(path, sizeof(path), "/proc/%d/status", pid);
    if (fd_read_file(AT_FDCWD, path, status, sizeof(status)) < 0) {
        return gone(v);
    }
    for (size_t i = 0; i < ARRAY_LEN(none); i++) {
        if (!has_line(status, none[i], "0000000000000000")) {
            return no_fit(v, "it has capabilities", none[i]);
        }
    }
    if (!has_line(status, "NoNewPrivs", "1") || !has_line(status, "Seccomp", "2")) {
        return no_fit(v, "it has no system-call filter", l->filter->name);
    }
    (void)str_format(ids, sizeof(ids), "%llu\t%llu\t%llu\t%llu", (unsigned long long)l->uid,
                     (unsigned long long)l->uid, (unsigned long long)l->uid,
                     (unsigned long long)l->uid);
    return has_line(status, "Uid", ids) ? 0 : no_fit(v, "it runs as another user", "Uid");
}

/* Waits until it has stopped. */
static int await_stop(pid_t pid)
{
    const struct timespec ms = {.tv_nsec = NS_PER_MS};
    int status;

    for (int i = 0; i < STOP_MS; i++) {
        pid_t r = waitpid(pid, &status, WNOHANG | __WALL);
        if (r == pid) {
            return WIFSTOPPED(status) ? 0 : -1;
        }
        if (r < 0) {
            return -1;
        }
        nanosleep(&ms, NULL);
    }
    return -1;
}

/* The kernel counts from the oldest: filters that the box's own code added only forbid more. */
static bool is_filter(pid_t pid, long index, const struct seccomp_code *want)
{
    static struct sock_filter code[FILTER_MAX];

    /* NOLINTNEXTLINE(performance-no-int-to-ptr): ptrace() takes its numbers so */
    long n = ptrace(PTRACE_SECCOMP_GET_FILTER, pid, (void *)index, code);
    return n == want->len && memcmp(code, want->code, (size_t)n * sizeof(*code)) == 0;
}

static int look_at_filters(const struct look *l, pid_t pid, struct inspect_verdict *v)
{
    if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) < 0 ||
        ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) < 0 || await_stop(pid) < 0) {
        return gone(v);
    }
    errno = 0;
    if (ptrace(PTRACE_SECCOMP_GET_FILTER, pid, NULL, NULL) < 0 && errno != ENOENT) {
        return gone(v); /* this kernel does not show filters */
    }
    return is_filter(pid, 0, &l->filter->early) && is_filter(pid, 1, &l->filter->late)
               ? 0
               : no_fit(v, "it has another system-call filter", l->filter->name);
}

static int await_ready(const struct look *l)
{
    struct pollfd p[] = {{.fd = l->control, .events = POLLIN}, {.fd = l->pidfd, .events = POLLIN}};

    return l->control < 0 || (poll(p, 2, READY_MS) > 0 && (p[0].revents & POLLIN) != 0) ? 0 : -1;
}

/*
 * Our copy could be the last one of a file: then the kernel frees it when we exit, which can take
 * long, and the launcher waits for our exit.
 */
static void close_others(const struct look *l, int answer)
{
    int keep[] = {l->pidfd, l->control, answer};
    unsigned from = 0;

    for (size_t i = 0; i < ARRAY_LEN(keep); i++) { /* three: the smallest that is left, each time */
        unsigned next = ~0u;
        for (size_t k = 0; k < ARRAY_LEN(keep); k++) {
            next = keep[k] >= (int)from && (unsigned)keep[k] < next ? (unsigned)keep[k] : next;
        }
        if (next != ~0u && next > from) {
            (void)close_range(from, next - 1, 0);
        }
        from = next != ~0u ? next + 1 : from;
    }
    (void)close_range(from, ~0u, 0);
}

static NORETURN void inspect(const struct look *l, int answer)
{
    struct inspect_verdict v = {.result = INSPECT_FITS};
    pid_t parent = getppid();

    close_others(l, answer);
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    prctl(PR_SET_NAME, "husk-inspector", 0, 0, 0);
    if (getppid() != parent) {
        _exit(1);
    }
    pid_t pid = await_ready(l) == 0 ? pidfd_pid(l->pidfd) : -1;
    if (pid <= 0) {
        (void)gone(&v);
    } else if (look_at_status(l, pid, &v) == 0 && l->can_trace) {
        (void)look_at_filters(l, pid, &v);
    }
    struct pollfd p = {.fd = l->pidfd, .events = POLLIN};
    if (poll(&p, 1, 0) != 0) { /* it has ended: its number may name another process */
        (void)gone(&v);
    }
    (void)!write(answer, &v, sizeof(v));
    _exit(0); /* also detaches from the traced process */
}

/* ---- in the launcher ---- */

static int start(struct launcher *l, struct template *t, const struct box_entry *box, int control,
                 struct err *e)
{
    const struct look look = {
        .pidfd = box->pidfd,
        .control = control,
        .filter = &seccomp_programs[t->start.seccomp],
        .uid = box_host_id(l, t, box),
        .can_trace = !l->single_id,
    };
    int answer[2];

    if (pipe2(answer, O_CLOEXEC) < 0) {
        return err_sys(e, errno, "pipe to the inspector");
    }
    pid_t pid = fork();
    if (pid == 0) {
        inspect(&look, answer[1]);
    }
    close(answer[1]);
    if (pid < 0) {
        close(answer[0]);
        return err_sys(e, errno, "start the inspector");
    }
    t->inspector = pid;
    t->verdict = answer[0];
    t->inspected = box->id;
    return 0;
}

/* Small, and no more than the operator allows. */
static struct limits probe_limits(const struct limits *most)
{
    struct limits l = {.memory_bytes = PROBE_MEMORY};

    if (most->memory_bytes != 0) {
        l.memory_bytes = MIN(l.memory_bytes, most->memory_bytes);
    }
    limits_fill(&l);
    l.cpu_milli = most->cpu_milli != 0 ? MIN(l.cpu_milli, most->cpu_milli) : l.cpu_milli;
    l.pids = most->pids != 0 ? MIN(l.pids, most->pids) : l.pids;
    l.disk_bytes = most->disk_bytes != 0 ? MIN(l.disk_bytes, most->disk_bytes) : l.disk_bytes;
    return l;
}

int inspect_probe(struct launcher *l, uint32_t id, struct err *e)
{
    struct template *t = &l->templates[id];
    struct launcher_req req = {
        .op = LAUNCHER_BOX,
        .template_id = id,
        .box = {.limits = probe_limits(&t->start.most), .warmth = LAUNCHER_COOL},
    };
    struct fd_set_msg fds = {.n = 0};
    int pair[2];
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
        return err_sys(e, errno, "socketpair");
    }
    t->probe = pair[0];
    fds.fds[fds.n++] = pair[1];
    while (fds.n < LAUNCHER_BOX_FDS) {
        if (pipe2(ends, O_CLOEXEC) < 0) {
            fd_set_release(&fds);
            return err_sys(e, errno, "pipe");
        }
        close(ends[fds.n == 1 ? 1 : 0]);
        fds.fds[fds.n] = ends[fds.n == 1 ? 0 : 1];
        fds.n++;
    }
    int r = box_new(l, &req, &fds, e);
    fd_set_release(&fds);
    return r;
}

void inspect_born(struct launcher *l, struct box_entry *box)
{
    struct template *t = &l->templates[box->template_id];
    struct err e = {0};

    if (start(l, t, box, t->probe, &e) < 0) {
        template_refuse(l, box->template_id, &e);
    }
}

bool inspect_sample(struct launcher *l, struct box_entry *box)
{
    struct template *t = &l->templates[box->template_id];
    struct err ignored;
    uint8_t chance;

    if (!t->start.imports || t->verdict >= 0 || box->pidfd < 0 || box->was_inspected) {
        return false;
    }
    box->was_inspected = true; /* or not chosen: it is drawn once */
    rand_bytes(&chance, sizeof(chance));
    return chance % ONE_IN == 0 && start(l, t, box, -1, &ignored) == 0;
}

static void condemn(struct launcher *l, uint32_t id, const struct inspect_verdict *v)
{
    struct template *t = &l->templates[id];
    struct launcher_rep gone_rep = {.event = LAUNCHER_EV_GONE, .template_id = id};

    err_set(&gone_rep.err, ERR_ISOLATION,
            "template %s: a box was not set up as it must be: %s. One of its modules changes how "
            "boxes are made: remove it from preload, offers or warm, and restart the server",
            t->name, v->why);
    log_error("template_condemned", "%s", gone_rep.err.msg);
    if (t->state == TEMPLATE_STARTING) {
        reply_error(l, t->start_seq, id, &gone_rep.err);
    } else {
        reply(l, &gone_rep);
    }
    template_stop(l, id);
}

void inspect_end(struct launcher *l, struct template *t)
{
    if (t->verdict >= 0) {
        kill(t->inspector, SIGKILL);
        (void)waitpid(t->inspector, NULL, 0);
    }
    fd_close(&t->verdict);
    closer_close_one(l, &t->probe);
}

void inspect_serve(struct launcher *l, uint32_t id)
{
    struct template *t = &l->templates[id];
    struct inspect_verdict v = {.result = INSPECT_NOT_SEEN};
    struct box_entry *box = &l->boxes[t->inspected % BOXES_MAX];
    bool is_there = box->id == t->inspected && box->template_id == id && box->state == BOX_LIVE;
    struct err e = {0};

    if (read(t->verdict, &v, sizeof(v)) != (ssize_t)sizeof(v)) {
        v.result = INSPECT_NOT_SEEN;
    }
    v.why[sizeof(v.why) - 1] = '\0';
    inspect_end(l, t);
    if (t->state == TEMPLATE_ENDING) {
        return;
    }
    if (v.result == INSPECT_NO_FIT) {
        condemn(l, id, &v);
        return;
    }
    t->checked += v.result == INSPECT_FITS;
    if (t->state == TEMPLATE_STARTING && v.result == INSPECT_NOT_SEEN) {
        err_set(&e, ERR_ISOLATION, "its first box could not be set up or inspected");
        template_refuse(l, id, &e);
    } else if (is_there && (box->probe || box->silent)) {
        box_end(l, box, LAUNCHER_END_FINISHED);
    }
}
