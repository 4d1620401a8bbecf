/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request to an agent: waits for a worker (agent_dispatch.c), then for the frames of its answer;
 * see agents.h.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"

#include "agents/agents_impl.h"

/* ---- failures ---- */

void agent_call_fail(struct agent_call *call, const struct err *why)
{
    if (call->is_queued) {
        agent_dequeue(call);
    }
    call->worker = NULL;
    call->error = *why;
    fiber_wake(call->waiter);
}

static int set_not_ready(const struct agent *agent, struct err *e)
{
    return err_set(e, ERR_UNAVAILABLE, "the agent \"%s\" has no worker that is ready%s%s",
                   agent->plan->name, agent->cannot_start ? ": " : "",
                   agent->cannot_start ? agent->failure : "");
}

/* Requests that wait fail at once when no worker can serve them soon. */
void agent_fail_queue(struct agent *agent)
{
    struct err e;

    if (!agent->cannot_start || agent_is_any_ready(agent)) {
        return;
    }
    set_not_ready(agent, &e);
    while (agent->queue_first != NULL) {
        agent_call_fail(agent->queue_first, &e);
    }
}

/* ---- the start ---- */

static int check_wait(const struct agent *agent, struct err *e)
{
    if (agent->agents->is_stopping) {
        return err_set(e, ERR_UNAVAILABLE, "the server stops");
    }
    if (agent->cannot_start && !agent_is_any_ready(agent)) {
        return set_not_ready(agent, e);
    }
    if (agent->queued >= agent->plan->queue_length) {
        return err_set(e, ERR_UNAVAILABLE,
                       "all workers of the agent \"%s\" are busy and %u requests wait already",
                       agent->plan->name, agent->queued);
    }
    return 0;
}

/* Waits in the queue until a worker has the request. */
static int wait_for_worker(struct agent_call *call, struct err *e)
{
    struct agent *agent = call->agent;
    uint64_t begun = clock_ms();

    agent_enqueue(call);
    agent_dispatch(agent); /* others may wait for their sessions' workers only */
    while (call->is_queued) {
        uint64_t waited = clock_ms() - begun;
        uint64_t most = agent->plan->request_timeout_ms;
        bool is_ready = agent_is_any_ready(agent);
        if (!is_ready && most > NO_WORKER_MS) {
            most = NO_WORKER_MS;
        }
        if (call->request.is_gone(call->request.user)) {
            agent_dequeue(call);
            return -1;
        }
        if (waited >= most) {
            agent_dequeue(call);
            return is_ready ? err_set(e, ERR_TIMEOUT, "the request waited too long for a worker")
                            : set_not_ready(agent, e);
        }
        (void)fiber_poll(NULL, 0, (int64_t)(most - waited));
    }
    if (call->error.code == ERR_NONE) {
        return 0;
    }
    *e = call->error;
    return -1;
}

struct agent_call *agent_call_open(struct agent *agent, const struct agent_request *request,
                                   struct err *e)
{
    struct agent_call *call = NULL;

    e->code = ERR_NONE;
    agent->requests++;
    if (request->len > AGENT_PAYLOAD_MAX) {
        err_set(e, ERR_TOO_LARGE, "the request is larger than an agent can be given");
        return NULL;
    }
    call = calloc(1, sizeof(*call));
    if (call == NULL) {
        err_set(e, ERR_UNAVAILABLE, "the server has no memory for another request");
        goto failed;
    }
    call->agent = agent;
    call->request = *request;
    call->home = agent_home_of(request->session);
    call->request.session = NULL;
    call->waiter = fiber_self();
    if (request->type != AGENT_HTTP) { /* whose body is passed on and not kept */
        call->payload = malloc(request->len + 1);
        if (call->payload == NULL) {
            err_set(e, ERR_UNAVAILABLE, "the server has no memory for another request");
            goto failed;
        }
        memcpy(call->payload, request->payload, request->len);
        call->request.payload = call->payload;
    }
    bool is_given = agent->queued == 0 && !agent->agents->is_stopping && agent_give(call);
    if (!is_given && (check_wait(agent, e) < 0 || wait_for_worker(call, e) < 0)) {
        goto failed;
    }
    return call;

failed:
    agent->errors += e->code != ERR_NONE ? 1 : 0;
    if (call != NULL) {
        free(call->payload);
    }
    free(call);
    return NULL;
}

/* ---- the answer ---- */

void agent_answer_free(struct agent_answer *answer)
{
    if (answer != NULL) {
        json_decref(answer->value);
        free(answer);
    }
}

/* The worker is not read while the client has this much to take. */
static void tell_full(struct agent_call *call)
{
    bool is_full = call->backlog > BACKLOG_HIGH ||
                   (call->agent->backlog > AGENT_BACKLOG_HIGH && call->backlog > BACKLOG_LOW);

    if (call->worker != NULL) {
        worker_set_full(call->worker, call, is_full);
    }
}

void agent_call_take(struct agent_call *call, struct agent_answer *answer)
{
    if (call->last != NULL) {
        call->last->next = answer;
    } else {
        call->first = answer;
    }
    call->last = answer;
    call->backlog += answer->len;
    call->agent->backlog += answer->len;
    tell_full(call);
    fiber_wake(call->waiter);
}

static struct agent_answer *pop(struct agent_call *call)
{
    struct agent_answer *answer = call->first;

    call->first = answer->next;
    if (call->first == NULL) {
        call->last = NULL;
    }
    answer->next = NULL;
    call->backlog -= answer->len;
    call->agent->backlog -= answer->len;
    call->touched_ms = clock_ms();
    tell_full(call);
    return answer;
}

bool agent_call_has_answer(const struct agent_call *call)
{
    return call->first != NULL || call->error.code != ERR_NONE;
}

static enum agent_step fail(struct agent_call *call, struct err *e)
{
    if (call->error.code == ERR_NONE) {
        err_set(&call->error, ERR_WORKER,
                "BadAnswer: the agent's worker ended its answer too early");
    }
    call->agent->errors++;
    *e = call->error;
    return AGENT_STEP_FAILED;
}

/* Milliseconds that the agent still has; 0: none, and the request is cancelled. */
static uint64_t time_left(struct agent_call *call)
{
    uint64_t most = call->agent->plan->request_timeout_ms;
    uint64_t quiet = clock_ms() - call->touched_ms;

    if (quiet < most) {
        return most - quiet;
    }
    struct worker *w = call->worker;
    if (call->is_queued) {
        agent_dequeue(call);
    } else {
        worker_cancel(w, call->id);
        worker_demand_pong(w);
    }
    err_set(&call->error, ERR_TIMEOUT, "the agent did not answer within %llu ms",
            (unsigned long long)most);
    return 0;
}

static bool is_server_error(const struct agent_answer *answer)
{
    return answer->type == AGENT_ERROR &&
           json_integer_value(json_object_get(answer->value, "status")) >= 500;
}

enum agent_step agent_call_next(struct agent_call *call, int64_t ms, struct agent_answer **ret,
                                struct err *e)
{
    uint64_t begun = clock_ms();

    for (;;) {
        if (call->first != NULL) {
            *ret = pop(call);
            call->agent->errors += is_server_error(*ret) ? 1 : 0;
            return AGENT_STEP_ANSWER;
        }
        if (call->error.code != ERR_NONE || (call->worker == NULL && !call->is_queued)) {
            return fail(call, e);
        }
        if (call->request.is_gone(call->request.user)) {
            return AGENT_STEP_GONE;
        }
        uint64_t wait = time_left(call);
        if (wait == 0) {
            return fail(call, e);
        }
        uint64_t waited = clock_ms() - begun;
        if (ms >= 0 && waited >= (uint64_t)ms) {
            return AGENT_STEP_QUIET;
        }
        if (ms >= 0 && (uint64_t)ms - waited < wait) {
            wait = (uint64_t)ms - waited;
        }
        (void)fiber_poll(NULL, 0, (int64_t)wait);
    }
}

int agent_call_send(struct agent_call *call, enum agent_frame_type type, const char *data,
                    size_t len)
{
    const struct agent_frame frame = {.len = (uint32_t)len, .type = type, .id = call->id};
    struct worker *w = call->worker;

    while (call->worker != NULL && w->out.len - w->out_at >= OUT_HIGH) {
        uint64_t wait = time_left(call);
        if (wait == 0 || call->request.is_gone(call->request.user)) {
            return -1;
        }
        call->is_sending = true;
        w->sending++;
        (void)fiber_poll(NULL, 0, (int64_t)wait);
        w->sending--;
        call->is_sending = false;
    }
    call->touched_ms = clock_ms();
    return call->worker != NULL && worker_send(w, &frame, data) == 0 ? 0 : -1;
}

void agent_call_close(struct agent_call *call)
{
    if (call->is_queued) {
        agent_dequeue(call);
    }
    if (call->worker != NULL) {
        worker_cancel(call->worker, call->id);
    }
    while (call->first != NULL) {
        agent_answer_free(pop(call));
    }
    free(call->payload);
    free(call);
}
