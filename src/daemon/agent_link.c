/* SPDX-License-Identifier: Apache-2.0 */
/* See agent_link.h. Only the supervisor knows the programs behind the numbers sent here. */
#include "daemon/agent_link.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/log.h"

static struct {
    struct agents_plan plan;
    struct agents *agents;
} w;

int agent_link_load(struct err *e)
{
    int fd = SUPERVISOR_PLAN_FD;
    int r = agents_plan_read_sealed(fd, &w.plan, e);

    fd_close(&fd);
    return r;
}

static int tell(const struct supervisor_worker *message)
{
    ssize_t n = send(SUPERVISOR_FD, message, sizeof(*message), MSG_NOSIGNAL | MSG_DONTWAIT);

    return n == (ssize_t)sizeof(*message) ? 0 : n < 0 ? -errno : -EIO;
}

static int start(void *user, uint32_t agent, uint32_t worker)
{
    return tell(
        &(struct supervisor_worker){.kind = WORKER_START, .agent = agent, .worker = worker});
}

static int end(void *user, uint32_t worker, int signum)
{
    return tell(
        &(struct supervisor_worker){.kind = WORKER_KILL, .worker = worker, .status = signum});
}

int agent_link_open(uv_loop_t *loop, struct agents **ret, struct err *e)
{
    static const struct agents_starter starter = {.start = start, .kill = end};

    *ret = NULL;
    if (w.plan.n_agents == 0 && w.plan.n_failed == 0) {
        return 0;
    }
    w.agents = agents_open(&w.plan, loop, &starter, e);
    *ret = w.agents;
    return w.agents == NULL ? -1 : 0;
}

void agent_link_take(const struct supervisor_worker *m, struct fd_set_msg *fds)
{
    if (w.agents == NULL) {
        return;
    }
    if (m->kind == WORKER_STARTED && fds->n == 1) {
        agents_on_started(w.agents, m->worker, take_fd(&fds->fds[0]));
    } else if (m->kind == WORKER_FAILED) {
        agents_on_failed(w.agents, m->worker, m->status);
    } else if (m->kind == WORKER_EXITED) {
        agents_on_exited(w.agents, m->worker, m->status, (m->flags & WORKER_OUT_OF_MEMORY) != 0);
    } else {
        log_error("supervisor_message", "kind=%u descriptors=%zu: not understood", m->kind, fds->n);
    }
}
