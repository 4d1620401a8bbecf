/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which worker gets which request; see agents_impl.h.
 *
 * Requests of a session go to one worker: the hash of the session names it, or the next one that
 * works. Other requests go to the least busy one. A request that cannot be given yet waits, and
 * those behind it may pass.
 *
 * When a worker dies, a request that the agent had not begun is given to another worker. One that
 * it had begun may have had effects: it fails, unless the plan has retries for it. A request that
 * may have ended workers runs alone from then on, so that it cannot take others with it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#include "agents/agents_impl.h"

#define MOVES_MAX 2 /* the second time it runs alone */
#define FNV_START 2166136261U
#define FNV_PRIME 16777619U

uint32_t agent_home_of(const char *session)
{
    uint32_t hash = FNV_START;

    if (session == NULL) {
        return 0;
    }
    for (const char *p = session; *p != '\0'; p++) {
        hash = (hash ^ (unsigned char)*p) * FNV_PRIME;
    }
    return hash != 0 ? hash : 1;
}

bool agent_is_any_ready(const struct agent *agent)
{
    for (uint32_t i = 0; i < agent->n_workers; i++) {
        if (agent->workers[i].state == WORKER_WORKING) {
            return true;
        }
    }
    return false;
}

/* ---- workers for requests ---- */

/* The worker of its session: the first that works, from the hash on. NULL: none works. */
static struct worker *home_of(const struct agent_call *call)
{
    struct agent *agent = call->agent;

    for (uint32_t i = 0; i < agent->n_workers; i++) {
        struct worker *w = &agent->workers[(call->home + i) % agent->n_workers];
        if (w->state == WORKER_WORKING) {
            return w;
        }
    }
    return NULL;
}

static bool can_take(const struct worker *w, const struct agent_call *call)
{
    return worker_has_room(w) && !w->is_reserved && (!call->is_alone || w->in_flight == 0);
}

/*
 * The worker for a call, except one that is kept free for another call. *ret_wanted: the one that
 * the call waits for, if it waits.
 */
static struct worker *worker_for(const struct agent_call *call, const struct worker *except,
                                 const struct worker **ret_wanted)
{
    struct agent *agent = call->agent;
    struct worker *home = call->home != 0 ? home_of(call) : NULL;
    struct worker *best = NULL;

    *ret_wanted = home;
    if (call->home != 0) {
        return home != NULL && home != except && can_take(home, call) ? home : NULL;
    }
    for (uint32_t i = 0; i < agent->n_workers; i++) {
        struct worker *w = &agent->workers[i];
        if (w->state == WORKER_WORKING && w != except &&
            (*ret_wanted == NULL || w->in_flight < (*ret_wanted)->in_flight)) {
            *ret_wanted = w;
        }
        if (w != except && can_take(w, call) && (best == NULL || w->in_flight < best->in_flight)) {
            best = w;
        }
    }
    return best;
}

static void hand_over(struct agent_call *call, struct worker *w)
{
    struct agent_frame frame = {.len = (uint32_t)call->request.len, .type = call->request.type};

    call->worker = w;
    call->has_begun = false;
    call->id = worker_take_slot(w, call);
    frame.id = call->id;
    call->touched_ms = clock_ms();
    if (worker_send(w, &frame, call->request.payload) < 0) {
        call->moves = MOVES_MAX; /* it would be the same with another worker */
        worker_condemn(w, "there is no memory for frames to it");
    }
}

bool agent_give(struct agent_call *call)
{
    const struct worker *wanted;
    struct worker *w = worker_for(call, NULL, &wanted);

    if (w != NULL) {
        hand_over(call, w);
    }
    return w != NULL;
}

/* ---- the queue ---- */

void agent_dequeue(struct agent_call *call)
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
    call->next = NULL;
    call->is_queued = false;
    agent->queued--;
}

void agent_enqueue(struct agent_call *call)
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

static void enqueue_first(struct agent_call *call)
{
    struct agent *agent = call->agent;

    call->next = agent->queue_first;
    agent->queue_first = call;
    if (agent->queue_last == NULL) {
        agent->queue_last = call;
    }
    call->is_queued = true;
    agent->queued++;
}

static bool has_room(const struct agent *agent)
{
    for (uint32_t i = 0; i < agent->n_workers; i++) {
        if (worker_has_room(&agent->workers[i]) && !agent->workers[i].is_reserved) {
            return true;
        }
    }
    return false;
}

void agent_dispatch(struct agent *agent)
{
    const struct worker *kept = NULL; /* for the first call that needs a worker of its own */
    struct agent_call *call = agent->queue_first;

    while (call != NULL && has_room(agent)) {
        struct agent_call *next = call->next;
        const struct worker *wanted;
        struct worker *w = worker_for(call, kept, &wanted);
        if (w != NULL) {
            agent_dequeue(call);
            hand_over(call, w);
            fiber_wake(call->waiter);
        } else if (call->is_alone && kept == NULL) {
            kept = wanted; /* gets idle now, because it gets nothing new */
        }
        call = next;
    }
}

/* ---- requests of dead workers ---- */

void agent_call_begun(struct agent_call *call)
{
    call->has_begun = true;
    if (call->retries >= call->agent->plan->retries && call->payload != NULL) {
        free(call->payload);
        call->payload = NULL;
        call->request.payload = NULL;
    }
}

bool agent_call_move(struct agent_call *call)
{
    struct agent *agent = call->agent;

    if (call->payload == NULL || call->has_answered || agent->agents->is_stopping ||
        (call->has_begun ? call->retries >= agent->plan->retries : call->moves >= MOVES_MAX)) {
        return false;
    }
    if (call->has_begun) {
        call->retries++;
        call->is_alone = true;
    } else {
        call->moves++;
        call->is_alone = call->is_alone || call->moves == MOVES_MAX;
    }
    call->worker = NULL;
    enqueue_first(call);
    agent->agents->has_moved = true;
    return true;
}

void agent_dispatch_moved(struct agents *a)
{
    if (a->has_moved) {
        a->has_moved = false;
        for (size_t i = 0; i < a->n; i++) {
            agent_dispatch(&a->list[i]);
        }
    }
}
