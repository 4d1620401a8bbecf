/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of workers, and messages to the daemon about them; see workers.h.
 *
 * There are twice as many slots as the plan has replicas: old workers may still be finishing when
 * their successors start. The supervisor never waits for the daemon: if the socket is full, the end
 * of a worker stays in its slot.
 */
#include "supervisor/workers.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "limited/limited.h"
#include "supervisor/worker_start.h"
#include "wire/supervisor_msg.h"

#define SLOTS_PER_REPLICA 2

enum slot_state {
    SLOT_FREE = 0,
    SLOT_RUNS,
    SLOT_ORPHAN, /* runs, but its daemon has ended */
    SLOT_OWED,   /* has ended, and the daemon was not told yet */
};

struct slot {
    enum slot_state state;
    uint32_t agent;
    pid_t pid;                     /* of husk limited */
    int report;                    /* owned */
    struct supervisor_worker last; /* the message about its end */
};

struct workers {
    struct worker_kit kit;
    struct slot *slots;
    size_t n_slots;
};

int workers_open(const struct workers_options *o, struct workers **ret, struct err *e)
{
    struct workers *w = calloc(1, sizeof(*w));

    if (w == NULL) {
        return err_sys(e, ENOMEM, "cannot allocate the table of workers");
    }
    if (worker_kit_open(o->config, o->daemon, o->plan, &w->kit, e) < 0) {
        workers_close(w);
        return -1;
    }
    w->kit.output = o->output;
    for (size_t i = 0; i < w->kit.plan.n_agents; i++) {
        w->n_slots += (size_t)w->kit.plan.agents[i].replicas * SLOTS_PER_REPLICA;
    }
    w->slots = calloc(w->n_slots + 1, sizeof(*w->slots));
    if (w->slots == NULL) {
        workers_close(w);
        return err_sys(e, ENOMEM, "cannot allocate the table of workers");
    }
    *ret = w;
    return 0;
}

int workers_plan(const struct workers *w)
{
    return w->kit.sealed;
}

static bool runs(const struct slot *s)
{
    return s->state == SLOT_RUNS || s->state == SLOT_ORPHAN;
}

void workers_close(struct workers *w)
{
    if (w == NULL) {
        return;
    }
    for (size_t i = 0; w->slots != NULL && i < w->n_slots; i++) {
        struct slot *s = &w->slots[i];
        if (runs(s)) {
            kill(s->pid, SIGKILL);
            (void)waitpid(s->pid, NULL, 0);
            fd_close(&s->report);
        }
    }
    worker_kit_release(&w->kit);
    free(w->slots);
    free(w);
}

/* ---- starting ---- */

static void answer(int daemon_socket, const struct supervisor_worker *msg)
{
    ssize_t n = fd_send(daemon_socket, msg, sizeof(*msg), NULL, 0, MSG_DONTWAIT | MSG_NOSIGNAL);

    if (n < 0) {
        log_error("worker_untold", "worker=%" PRIu32 ": %s", msg->worker, strerror((int)-n));
    }
}

static void refuse(int daemon_socket, const struct supervisor_worker *msg, int why,
                   const char *what)
{
    struct supervisor_worker failed = {
        .kind = WORKER_FAILED, .agent = msg->agent, .worker = msg->worker, .status = why};

    log_error("worker_refused", "agent=%" PRIu32 " worker=%" PRIu32 ": %s", msg->agent, msg->worker,
              what);
    answer(daemon_socket, &failed);
}

static struct slot *find(struct workers *w, uint32_t worker)
{
    for (size_t i = 0; i < w->n_slots; i++) {
        struct slot *s = &w->slots[i];
        if ((s->state == SLOT_RUNS || s->state == SLOT_OWED) && s->last.worker == worker) {
            return s;
        }
    }
    return NULL;
}

/* A free slot, unless the agent has all that it may have. */
static struct slot *find_free(struct workers *w, uint32_t agent)
{
    size_t most = (size_t)w->kit.plan.agents[agent].replicas * SLOTS_PER_REPLICA;
    struct slot *found = NULL;
    size_t n = 0;

    for (size_t i = 0; i < w->n_slots; i++) {
        struct slot *s = &w->slots[i];
        if (s->state == SLOT_FREE) {
            found = s;
        } else if (s->agent == agent) {
            n++;
        }
    }
    return n < most ? found : NULL;
}

static void start(struct workers *w, int daemon_socket, const struct supervisor_worker *msg)
{
    struct worker_process process;

    if (msg->agent >= w->kit.plan.n_agents) {
        refuse(daemon_socket, msg, EINVAL, "the plan has no such agent");
        return;
    }
    struct slot *s = find_free(w, msg->agent);
    if (find(w, msg->worker) != NULL || s == NULL) {
        refuse(daemon_socket, msg, s == NULL ? EAGAIN : EEXIST,
               s == NULL ? "the agent has its maximum of workers" : "the worker exists already");
        return;
    }
    const struct agent_plan *agent = &w->kit.plan.agents[msg->agent];
    int r = worker_start(&w->kit, agent, &process);
    if (r < 0) {
        refuse(daemon_socket, msg, -r, strerror(-r));
        return;
    }
    *s = (struct slot){
        .state = SLOT_RUNS, .agent = msg->agent, .pid = process.pid, .report = process.report};
    s->last = (struct supervisor_worker){
        .kind = WORKER_EXITED, .agent = msg->agent, .worker = msg->worker};
    struct supervisor_worker started = s->last;
    started.kind = WORKER_STARTED;
    ssize_t n = fd_send(daemon_socket, &started, sizeof(started), &process.socket, 1,
                        MSG_DONTWAIT | MSG_NOSIGNAL);
    fd_close(&process.socket);
    if (n < 0) { /* useless without its socket; its end is reported when the socket has room */
        log_error("worker_untold", "agent=%s: %s", agent->name, strerror((int)-n));
        kill(s->pid, SIGKILL);
        return;
    }
    log_info("worker_started", "agent=%s worker=%" PRIu32 " pid=%d", agent->name, msg->worker,
             (int)s->pid);
}

void workers_hear(struct workers *w, int daemon_socket, const void *data, size_t n)
{
    struct supervisor_worker msg;

    if (n != sizeof(msg)) {
        log_error("daemon_message_refused", "%zu bytes are not a message", n);
        return;
    }
    memcpy(&msg, data, sizeof(msg));
    if (msg.kind == WORKER_START) {
        start(w, daemon_socket, &msg);
    } else if (msg.kind == WORKER_KILL && (msg.status == SIGTERM || msg.status == SIGKILL)) {
        const struct slot *s = find(w, msg.worker);
        if (s != NULL && s->state == SLOT_RUNS) { /* otherwise it has just ended by itself */
            kill(s->pid, msg.status);
        }
    } else {
        log_error("daemon_message_refused", "kind=%" PRIu32 " status=%" PRId32, msg.kind,
                  msg.status);
    }
}

/* ---- ending ---- */

/* How the worker itself ended: the report of husk limited has more than its exit status. */
static void read_report(struct slot *s, int status)
{
    char text[2 * LIMITED_REPORT_MAX];
    struct limited_end end;

    ssize_t n = read(s->report, text, sizeof(text) - 1);
    text[n > 0 ? n : 0] = '\0';
    fd_close(&s->report);
    s->last.status = status;
    if (limited_report_read(text, &end)) {
        s->last.status = W_EXITCODE(end.signal == 0 ? end.exit_code : 0, end.signal);
        s->last.flags = limited_is_out_of_memory(&end) ? WORKER_OUT_OF_MEMORY : 0;
    }
}

bool workers_reap(struct workers *w, pid_t pid, int status)
{
    for (size_t i = 0; i < w->n_slots; i++) {
        struct slot *s = &w->slots[i];
        if (runs(s) && s->pid == pid) {
            read_report(s, status);
            log_info("worker_ended", "agent=%s worker=%" PRIu32 " exit_code=%d signal=%d%s",
                     w->kit.plan.agents[s->agent].name, s->last.worker,
                     WIFEXITED(s->last.status) ? WEXITSTATUS(s->last.status) : 0,
                     WIFSIGNALED(s->last.status) ? WTERMSIG(s->last.status) : 0,
                     s->last.flags != 0 ? " out_of_memory" : "");
            s->state = s->state == SLOT_RUNS ? SLOT_OWED : SLOT_FREE;
            return true;
        }
    }
    return false;
}

bool workers_owe(const struct workers *w)
{
    for (size_t i = 0; i < w->n_slots; i++) {
        if (w->slots[i].state == SLOT_OWED) {
            return true;
        }
    }
    return false;
}

void workers_tell(struct workers *w, int daemon_socket)
{
    for (size_t i = 0; i < w->n_slots; i++) {
        struct slot *s = &w->slots[i];
        if (s->state != SLOT_OWED) {
            continue;
        }
        ssize_t n =
            fd_send(daemon_socket, &s->last, sizeof(s->last), NULL, 0, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n == -EAGAIN) {
            return;
        }
        s->state = SLOT_FREE; /* reported, or the daemon has ended */
    }
}

bool workers_any(const struct workers *w)
{
    for (size_t i = 0; i < w->n_slots; i++) {
        if (runs(&w->slots[i])) {
            return true;
        }
    }
    return false;
}

void workers_end(struct workers *w, int signal)
{
    for (size_t i = 0; i < w->n_slots; i++) {
        if (runs(&w->slots[i])) {
            kill(w->slots[i].pid, signal);
        }
    }
}

void workers_orphan(struct workers *w, int signal)
{
    for (size_t i = 0; i < w->n_slots; i++) {
        struct slot *s = &w->slots[i];
        if (s->state == SLOT_OWED) {
            s->state = SLOT_FREE;
        } else if (s->state == SLOT_RUNS) {
            s->state = SLOT_ORPHAN;
        }
    }
    workers_end(w, signal);
}
