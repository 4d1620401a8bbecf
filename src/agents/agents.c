/* SPDX-License-Identifier: Apache-2.0 */
/* The table of served agents; see agents.h. */
#include "agents/agents.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rand.h"
#include "base/str.h"

#include "agents/agents_impl.h"

static void on_prepare(uv_prepare_t *prepare)
{
    agent_dispatch_moved(prepare->data);
    worker_flush_all(prepare->data);
}

/* Only before any handle is on the loop. */
static void release(struct agents *a)
{
    for (size_t i = 0; i < a->n_workers; i++) {
        free(a->workers[i].slots);
    }
    free(a->workers);
    free(a->list);
    free(a);
}

static int add_agents(struct agents *a)
{
    const struct agents_plan *plan = a->plan;
    size_t n = 0;

    for (size_t i = 0; i < plan->n_agents; i++) {
        n += plan->agents[i].replicas;
    }
    a->list = calloc(plan->n_agents + 1, sizeof(*a->list));
    a->workers = calloc(n + 1, sizeof(*a->workers));
    if (a->list == NULL || a->workers == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < plan->n_agents; i++) {
        struct agent *agent = &a->list[i];
        agent->agents = a;
        agent->plan = &plan->agents[i];
        agent->index = (uint32_t)i;
        agent->workers = &a->workers[a->n_workers];
        agent->n_workers = agent->plan->replicas;
        for (uint32_t k = 0; k < agent->n_workers; k++) {
            if (worker_init(&a->workers[a->n_workers++], agent) < 0) {
                return -ENOMEM;
            }
        }
        a->n++;
    }
    return 0;
}

struct agents *agents_open(const struct agents_plan *plan, struct uv_loop_s *loop,
                           const struct agents_starter *starter, struct err *e)
{
    struct agents *a = calloc(1, sizeof(*a));

    if (a == NULL) {
        err_sys(e, ENOMEM, "serve the agents");
        return NULL;
    }
    a->plan = plan;
    a->loop = loop;
    a->starter = *starter;
    if (add_agents(a) < 0) {
        release(a);
        err_sys(e, ENOMEM, "serve the agents");
        return NULL;
    }
    /* Random, so that late messages about workers of an earlier daemon match none of ours. */
    rand_bytes(&a->next_number, sizeof(a->next_number));
    a->next_number = a->next_number % (UINT32_MAX / 2) + 1;
    a->prepare.data = a;
    uv_prepare_init(loop, &a->prepare);
    uv_prepare_start(&a->prepare, on_prepare);
    for (size_t i = 0; i < a->n_workers; i++) {
        worker_begin(&a->workers[i]);
    }
    return a;
}

/* ---- what the supervisor says ---- */

static struct worker *find_worker(struct agents *a, uint32_t number)
{
    for (size_t i = 0; number != 0 && i < a->n_workers; i++) {
        if (a->workers[i].number == number) {
            return &a->workers[i];
        }
    }
    return NULL;
}

void agents_on_started(struct agents *a, uint32_t worker, int fd)
{
    struct worker *w = find_worker(a, worker);

    if (w != NULL) {
        worker_on_started(w, fd);
    } else {
        close(fd);
    }
}

void agents_on_failed(struct agents *a, uint32_t worker, int sys_errno)
{
    struct worker *w = find_worker(a, worker);
    char how[128];

    if (w != NULL) {
        (void)str_format(how, sizeof(how), "could not be started: %.64s", strerror(sys_errno));
        worker_on_exit(w, how);
    }
}

void agents_on_exited(struct agents *a, uint32_t worker, int status, bool out_of_memory)
{
    struct worker *w = find_worker(a, worker);
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    int signum = WIFSIGNALED(status) ? WTERMSIG(status) : code > 128 ? code - 128 : 0;
    char how[64];

    if (w == NULL) {
        return;
    }
    if (out_of_memory) {
        (void)str_copy(how, sizeof(how), "ran out of memory");
    } else if (signum > 0) {
        (void)str_format(how, sizeof(how), "was ended by signal %d", signum);
    } else {
        (void)str_format(how, sizeof(how), "exited with code %d", code);
    }
    worker_on_exit(w, how);
}

/* ---- the end ---- */

void agents_stop(struct agents *a)
{
    a->is_stopping = true;
}

static bool is_any_alive(const struct agents *a)
{
    for (size_t i = 0; i < a->n_workers; i++) {
        if (a->workers[i].state != WORKER_RESTING) {
            return true;
        }
    }
    return false;
}

void agents_end(struct agents *a, unsigned ms)
{
    uint64_t until = clock_ms() + ms;

    a->is_stopping = true;
    for (size_t i = 0; i < a->n_workers; i++) {
        worker_drain(&a->workers[i]);
    }
    worker_flush_all(a);
    a->ending = fiber_self();
    for (uint64_t now = clock_ms(); is_any_alive(a) && now < until; now = clock_ms()) {
        (void)fiber_poll(NULL, 0, (int64_t)(until - now));
    }
    a->ending = NULL;
}

/* ---- questions ---- */

const struct agents_plan *agents_plan_of(const struct agents *a)
{
    return a->plan;
}

const struct agent_plan *agent_plan_of(const struct agent *agent)
{
    return agent->plan;
}

struct agent *agents_at(struct agents *a, size_t index)
{
    return &a->list[index];
}

struct agent *agents_find(struct agents *a, const char *name)
{
    for (size_t i = 0; i < a->n; i++) {
        if (str_eq(a->list[i].plan->name, name)) {
            return &a->list[i];
        }
    }
    return NULL;
}

struct agent *agents_find_path(struct agents *a, const char *path, const char **ret_rest)
{
    struct agent *best = NULL;
    size_t longest = 0;

    for (size_t i = 0; i < a->n; i++) {
        const char *prefix = a->list[i].plan->route_prefix;
        size_t n = strlen(prefix);
        if (n > longest && strncmp(path, prefix, n) == 0 && (path[n] == '\0' || path[n] == '/')) {
            best = &a->list[i];
            longest = n;
        }
    }
    *ret_rest = path + longest;
    return best;
}

void agent_figures(const struct agent *agent, struct agent_figures *ret)
{
    *ret = (struct agent_figures){
        .failure = agent->failure,
        .queued = agent->queued,
        .requests = agent->requests,
        .errors = agent->errors,
        .restarts = agent->restarts,
    };
    for (uint32_t i = 0; i < agent->n_workers; i++) {
        ret->in_flight += agent->workers[i].in_flight;
        ret->ready += agent->workers[i].state == WORKER_WORKING ? 1 : 0;
    }
    ret->health = ret->ready > 0              ? AGENT_HEALTHY
                  : agent->failure[0] == '\0' ? AGENT_STARTING
                                              : AGENT_UNHEALTHY;
}
