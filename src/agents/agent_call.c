/* SPDX-License-Identifier: Apache-2.0 */
/* A request to an agent: waits for a worker, then for the frames of its answer; see agents.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"

#include "agents/agents_impl.h"

/* ---- workers for requests ---- */

static struct worker *least_busy(struct agent *agent)
{
    struct worker *best = NULL;

    for (uint32_t i = 0; i < agent->n_workers; i++) {
        struct worker *w = &agent->workers[i];
        if (worker_has_room(w) && (best == NULL || w->in_flight < best->in_flight)) {
            best = w;
        }
    }
    return best;
}

static bool is_any_ready(const struct agent *agent)
{
    for (uint32_t i = 0; i < agent->n_workers; i++) {
        if (agent->workers[i].state == WORKER_WORKING) {
            return true;
        }
    }
    return false;
}

/* True: a worker has it, or it has failed. */
static bool give(struct agent_call *call)
{
    struct worker *w = least_busy(call->agent);

    if (w == NULL) {
        return false;
    }
    struct agent_frame frame = {.len = (uint32_t)call->request.len, .type = call->request.type};
    call->worker = w;
    call->id = worker_take_slot(w, call);
    frame.id = call->id;
    call->touched_ms = clock_ms();
    if (worker_send(w, &frame, call->request.payload) < 0) {
        worker_condemn(w, "there is no memory for what it is told");
    }
    return true;
}

static void dequeue(struct agent_call *call)
{
    struct agent *agent = call->agent;
    struct agent_call *before = NULL;
    struct agent_call *at = agent->queue_first;

    while (at != NULL && at != call) {
        before = at;
        at = at->next;
    }
    if (at == NULL) {
        return;
    }
    if (before != NULL) {
        before->next = call->next;
    } else {
        agent->queue_first = call->next;
    }
    if (agent->queue_last == call) {
        agent->queue_last = before;
    }
    call->is_queued = false;
    agent->queued--;
}

void agent_dispatch(struct agent *agent)
{
    while (agent->queue_first != NULL) {
        struct agent_call *call = agent->queue_first;
        if (!give(call)) {
            return;
        }
        if (call->is_queued) {
            dequeue(call);
        }
        fiber_wake(call->waiter);
    }
}

static void enqueue(struct agent_call *call)
{
    struct agent *agent = call->agent;

    if (agent->queue_last != NULL) {
        agent->queue_last->next = call;
    } else {
        agent->queue_first = call;
    }
    agent->queue_last = call;
    call->is_queued = true;
    agent->queued++;
}

/* ---- failures ---- */

static void set_error(struct agent_error *e, int status, const char *text)
{
    e->status = status;
    (void)str_format(e->text, sizeof(e->text), "%.4000s", text);
}

void agent_call_fail(struct agent_call *call, int status, const char *text)
{
    if (call->is_queued) {
        dequeue(call);
    }
    call->worker = NULL;
    set_error(&call->error, status, text);
    fiber_wake(call->waiter);
}

/* Nobody could serve them soon: those that wait hear why. */
static void not_ready_text(const struct agent *agent, char dst[static AGENT_ERROR_TEXT])
{
    (void)str_format(dst, AGENT_ERROR_TEXT, "the agent \"%s\" has no worker that is ready%s%.3800s",
                     agent->plan->name, agent->cannot_start ? ": " : "",
                     agent->cannot_start ? agent->failure : "");
}

void agent_fail_queue(struct agent *agent)
{
    char text[AGENT_ERROR_TEXT];

    if (!agent->cannot_start || is_any_ready(agent)) {
        return;
    }
    not_ready_text(agent, text);
    while (agent->queue_first != NULL) {
        agent_call_fail(agent->queue_first, 503, text);
    }
}

/* ---- the start ---- */

/* False: refused, *e. */
static bool may_wait(const struct agent *agent, struct agent_error *e)
{
    char text[AGENT_ERROR_TEXT];

    if (agent->agents->is_stopping) {
        set_error(e, 503, "the server stops");
    } else if (agent->cannot_start && !is_any_ready(agent)) {
        not_ready_text(agent, text);
        set_error(e, 503, text);
    } else if (agent->queued >= agent->plan->queue_length) {
        (void)str_format(text, sizeof(text),
                         "all workers of the agent \"%s\" are busy and %u requests wait already",
                         agent->plan->name, agent->queued);
        set_error(e, 503, text);
    } else {
        return true;
    }
    return false;
}

/* Waits in the queue until a worker has the request. -1: *e. */
static int wait_for_worker(struct agent_call *call, struct agent_error *e)
{
    struct agent *agent = call->agent;
    uint64_t begun = clock_ms();
    char text[AGENT_ERROR_TEXT];

    enqueue(call);
    while (call->is_queued) {
        uint64_t waited = clock_ms() - begun;
        uint64_t most = agent->plan->request_timeout_ms;
        bool is_ready = is_any_ready(agent);
        if (!is_ready && most > NO_WORKER_MS) {
            most = NO_WORKER_MS;
        }
        if (call->request.is_gone(call->request.user)) {
            dequeue(call);
            return -1;
        }
        if (waited >= most) {
            dequeue(call);
            not_ready_text(agent, text);
            set_error(e, is_ready ? 504 : 503,
                      is_ready ? "the request waited too long for a worker" : text);
            return -1;
        }
        (void)fiber_poll(NULL, 0, (int64_t)(most - waited));
    }
    *e = call->error;
    return e->status == 0 ? 0 : -1;
}

struct agent_call *agent_call_open(struct agent *agent, const struct agent_request *request,
                                   struct agent_error *e)
{
    struct agent_call *call = NULL;

    e->status = 0;
    agent->requests++;
    if (request->len > AGENT_PAYLOAD_MAX) {
        set_error(e, 413, "the request is larger than an agent can be given");
        return NULL;
    }
    call = calloc(1, sizeof(*call));
    if (call == NULL) {
        set_error(e, 503, "the server has no memory for another request");
        goto failed;
    }
    call->agent = agent;
    call->request = *request;
    call->waiter = fiber_self();
    bool is_given = agent->queued == 0 && !agent->agents->is_stopping && give(call);
    if (!is_given && (!may_wait(agent, e) || wait_for_worker(call, e) < 0)) {
        goto failed;
    }
    return call;

failed:
    agent->errors += e->status >= 500 ? 1 : 0;
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

/* Its worker is not read while its client has this much to take. */
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
    return call->first != NULL || call->error.status != 0;
}

static enum agent_step fail(struct agent_call *call, struct agent_error *e)
{
    if (call->error.status == 0) {
        set_error(&call->error, 502, "BadAnswer: the agent's worker ended its answer too early");
    }
    call->agent->errors += call->error.status >= 500 ? 1 : 0;
    *e = call->error;
    return AGENT_STEP_FAILED;
}

/* The worker's own ERROR. */
static enum agent_step take_error(struct agent_call *call, struct agent_answer *answer,
                                  struct agent_error *e)
{
    const json_t *message = json_object_get(answer->value, "message");
    const json_t *type = json_object_get(answer->value, "type");

    call->error.status = (int)json_integer_value(json_object_get(answer->value, "status"));
    bool is_silent = json_string_length(message) == 0;
    const json_t *said = is_silent ? type : message; /* some exceptions have only their name */
    str_printable(call->error.text, sizeof(call->error.text), json_string_value(said),
                  json_string_length(said));
    agent_answer_free(answer);
    return fail(call, e);
}

/* Milliseconds until the agent has taken too long; 0: it has, and the request is cancelled. */
static uint64_t time_left(struct agent_call *call)
{
    uint64_t most = call->agent->plan->request_timeout_ms;
    uint64_t quiet = clock_ms() - call->touched_ms;
    char text[128];

    if (quiet < most) {
        return most - quiet;
    }
    struct worker *w = call->worker;
    worker_cancel(w, call->id);
    worker_demand_pong(w);
    (void)str_format(text, sizeof(text), "the agent did not answer within %llu ms",
                     (unsigned long long)most);
    set_error(&call->error, 504, text);
    return 0;
}

enum agent_step agent_call_next(struct agent_call *call, int64_t ms, struct agent_answer **ret,
                                struct agent_error *e)
{
    uint64_t begun = clock_ms();

    for (;;) {
        if (call->first != NULL) {
            struct agent_answer *answer = pop(call);
            if (answer->type == AGENT_ERROR) {
                return take_error(call, answer, e);
            }
            *ret = answer;
            return AGENT_STEP_ANSWER;
        }
        if (call->error.status != 0 || call->worker == NULL) {
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
    if (call->worker != NULL) {
        worker_cancel(call->worker, call->id);
    }
    while (call->first != NULL) {
        agent_answer_free(pop(call));
    }
    free(call);
}
