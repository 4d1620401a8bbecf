/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a worker process: started, watched, ended and started again; see agents_impl.h. One
 * timer does what is due in each state.
 */
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"

#include "agents/agents_impl.h"

#define LAST_READS 32 /* enough for the largest frame */

static void on_timer(uv_timer_t *timer);

int worker_init(struct worker *w, struct agent *agent)
{
    *w = (struct worker){.agent = agent,
                         .n_slots = agent->plan->max_in_flight,
                         .in = BUF_INIT(AGENT_PAYLOAD_MAX + ((size_t)1 << 20)),
                         .out = BUF_INIT(OUT_MAX)};
    w->slots = calloc(w->n_slots, sizeof(*w->slots));
    if (w->slots == NULL) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < w->n_slots; i++) {
        w->slots[i].next_free = i + 1;
    }
    return 0;
}

void worker_begin(struct worker *w)
{
    uv_timer_init(w->agent->agents->loop, &w->timer);
    w->timer.data = w;
    w->state_ms = clock_ms();
    worker_arm(w);
}

static const bool can_enter[WORKER_STATES][WORKER_STATES] = {
    [WORKER_RESTING] = {[WORKER_STARTING] = true},
    [WORKER_STARTING] = {[WORKER_WORKING] = true, [WORKER_ENDING] = true, [WORKER_RESTING] = true},
    [WORKER_WORKING] = {[WORKER_LEAVING] = true, [WORKER_ENDING] = true, [WORKER_RESTING] = true},
    [WORKER_LEAVING] = {[WORKER_ENDING] = true, [WORKER_RESTING] = true},
    [WORKER_ENDING] = {[WORKER_ENDING] = true, [WORKER_RESTING] = true}, /* killed once more */
};

static void set_state(struct worker *w, enum worker_state state)
{
    assert(can_enter[w->state][state]);
    w->state = state;
    w->state_ms = clock_ms();
    worker_arm(w);
}

/* ---- time ---- */

static uint64_t when_due(const struct worker *w)
{
    uint64_t due = w->n_full > 0      ? w->full_ms + STALL_MS
                   : w->pong_due != 0 ? w->pong_due
                                      : w->ping_at;

    switch (w->state) {
    case WORKER_RESTING:
        return w->state_ms + w->backoff_ms;
    case WORKER_STARTING:
        return w->state_ms + START_MS;
    case WORKER_WORKING:
        return w->cancelled > 0 && w->cancelled_due < due ? w->cancelled_due : due;
    case WORKER_LEAVING:
        return w->state_ms + DRAIN_MS;
    case WORKER_ENDING:
        return w->state_ms + EXIT_MS;
    }
    return due;
}

void worker_arm(struct worker *w)
{
    uint64_t now = clock_ms();
    uint64_t due = when_due(w);

    uv_update_time(w->agent->agents->loop);
    uv_timer_start(&w->timer, on_timer, due > now ? due - now : 0, 0);
}

static void kill_process(struct worker *w)
{
    const struct agents_starter *starter = &w->agent->agents->starter;

    (void)starter->kill(starter->user, w->number, SIGKILL); /* again when the timer is due */
}

static void start(struct worker *w)
{
    struct agents *a = w->agent->agents;

    if (a->is_stopping) {
        return;
    }
    w->agent->restarts += w->backoff_ms > 0 ? 1 : 0;
    w->number = a->next_number++;
    w->reason[0] = '\0';
    w->ready_ms = 0;
    set_state(w, WORKER_STARTING);
    int r = a->starter.start(a->starter.user, w->agent->index, w->number);
    if (r < 0) {
        char how[64];
        (void)str_format(how, sizeof(how), "could not be asked for: %s", strerror(-r));
        worker_on_exit(w, how);
    }
}

static void send_ping(struct worker *w)
{
    static const struct agent_frame ping = {.type = AGENT_PING};

    (void)worker_send(w, &ping, NULL);
    w->ping_at = clock_ms() + PING_MS;
}

static void watch(struct worker *w)
{
    uint64_t now = clock_ms();

    if (w->n_full > 0) { /* it is not read now, so its pongs wait as well */
        if (now >= w->full_ms + STALL_MS) {
            worker_fail_slow(w);
        }
        w->pong_due = w->pong_due != 0 ? now + PONG_MS : 0;
        worker_arm(w);
        return;
    }
    if (w->pong_due != 0 && now >= w->pong_due) {
        if (w->must_pong || w->in_flight == 0) {
            worker_condemn(w, "it did not answer a ping");
            return;
        }
        w->pong_due = now + PONG_MS; /* it is busy, and its requests have time limits */
    }
    if (w->cancelled > 0 && now >= w->cancelled_due) {
        if (w->cancelled == w->in_flight) {
            worker_condemn(w, "it went on with a request that was cancelled");
            return;
        }
        w->cancelled_due = now + 1000; /* other requests are still running */
    }
    if (w->pong_due == 0 && now >= w->ping_at) {
        send_ping(w);
        w->pong_due = now + PONG_MS;
    }
    worker_arm(w);
}

static void on_timer(uv_timer_t *timer)
{
    struct worker *w = timer->data;
    struct err e;

    switch (w->state) {
    case WORKER_RESTING:
        start(w);
        break;
    case WORKER_STARTING:
        worker_condemn(w, "it did not get ready within %d s", START_MS / 1000);
        break;
    case WORKER_WORKING:
        watch(w);
        break;
    case WORKER_LEAVING:
        worker_condemn(w, "it did not finish in time");
        break;
    case WORKER_ENDING:
        err_set(&e, ERR_WORKER, "WorkerDied: the agent's worker has closed its connection");
        worker_fail_calls(w, &e);
        kill_process(w);
        set_state(w, WORKER_ENDING);
        break;
    }
}

/* ---- what it says about itself ---- */

void worker_on_ready(struct worker *w)
{
    if (w->state != WORKER_STARTING) {
        worker_condemn(w, "it broke the protocol: READY at the wrong time");
        return;
    }
    w->ready_ms = clock_ms();
    w->ping_at = w->ready_ms + PING_MS;
    w->pong_due = 0;
    w->must_pong = false;
    w->reason[0] = '\0';
    w->agent->cannot_start = false;
    log_info("agent_worker_ready", "agent=%s worker=%u ms=%llu", w->agent->plan->name, w->number,
             (unsigned long long)(w->ready_ms - w->state_ms));
    set_state(w, WORKER_WORKING);
    agent_dispatch(w->agent);
}

/* The worker reports why it cannot start; its process ends next. */
void worker_on_failed(struct worker *w, const json_t *said)
{
    const json_t *error = json_object_get(said, "error");
    const json_t *traceback = json_object_get(said, "traceback");
    char text[4096];

    if (w->state != WORKER_STARTING) {
        worker_condemn(w, "it broke the protocol: FAILED at the wrong time");
        return;
    }
    str_printable(w->reason, sizeof(w->reason), json_string_value(error),
                  json_string_length(error));
    str_printable(text, sizeof(text), json_string_value(traceback), json_string_length(traceback));
    log_warn("agent_failed", "agent=%s error=\"%s\" traceback=\"%s\"", w->agent->plan->name,
             w->reason, text);
}

void worker_on_pong(struct worker *w)
{
    w->pong_due = 0;
    w->must_pong = false;
    w->ping_at = clock_ms() + PING_MS;
    if (w->state == WORKER_WORKING) {
        worker_arm(w);
    }
}

void worker_demand_pong(struct worker *w)
{
    if (w->state != WORKER_WORKING || w->must_pong) {
        return;
    }
    if (w->pong_due == 0) {
        send_ping(w);
    }
    w->must_pong = true;
    w->pong_due = clock_ms() + PONG_AFTER_TIMEOUT_MS;
    worker_arm(w);
}

/* ---- the end ---- */

void worker_drain(struct worker *w)
{
    static const struct agent_frame drain = {.type = AGENT_DRAIN};

    if (w->state == WORKER_WORKING && worker_send(w, &drain, NULL) == 0) {
        set_state(w, WORKER_LEAVING);
    } else if (w->state != WORKER_RESTING) {
        kill_process(w);
    }
}

void worker_condemn(struct worker *w, const char *fmt, ...)
{
    struct err e;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(w->reason, sizeof(w->reason), fmt, ap);
    va_end(ap);
    log_warn("agent_worker_killed", "agent=%s worker=%u reason=\"%s\"", w->agent->plan->name,
             w->number, w->reason);
    worker_disconnect(w);
    kill_process(w);
    err_set(&e, ERR_WORKER, "WorkerDied: the agent's worker was killed: %s", w->reason);
    worker_suspect_calls(w); /* frames that say so may be unread */
    worker_fail_calls(w, &e);
    set_state(w, WORKER_ENDING);
}

/* The supervisor reports next how it ended. */
void worker_on_eof(struct worker *w)
{
    worker_disconnect(w);
    set_state(w, WORKER_ENDING);
}

void worker_on_started(struct worker *w, int fd)
{
    int r = -EEXIST;

    if (w->state != WORKER_STARTING) {
        close(fd);
        kill_process(w); /* it was condemned meanwhile: the first KILL may have come too early */
        return;
    }
    if (w->link == NULL) {
        r = worker_connect(w, fd);
    } else {
        close(fd);
    }
    if (r < 0) {
        worker_condemn(w, "its socket cannot be watched: %s", strerror(-r));
    }
}

static void next_pause(struct worker *w)
{
    bool was_healthy = w->ready_ms != 0 && clock_ms() - w->ready_ms >= HEALTHY_MS;

    w->backoff_ms = w->backoff_ms == 0 || was_healthy ? BACKOFF_FIRST_MS : w->backoff_ms * 2;
    if (w->backoff_ms > BACKOFF_MOST_MS) {
        w->backoff_ms = BACKOFF_MOST_MS;
    }
}

void worker_on_exit(struct worker *w, const char *how)
{
    struct agent *agent = w->agent;
    struct err e;

    for (int i = 0; i < LAST_READS && w->link != NULL; i++) {
        worker_read(w); /* its last frames are still in the socket */
    }
    worker_disconnect(w);
    err_set(&e, ERR_WORKER, "WorkerDied: the agent's worker %s", how);
    worker_fail_calls(w, &e);
    if (!agent->agents->is_stopping) {
        bool is_known = w->reason[0] != '\0';
        (void)str_format(agent->failure, sizeof(agent->failure), "%.4000s",
                         is_known ? w->reason : e.msg);
        agent->cannot_start = w->ready_ms == 0;
        log_warn("agent_worker_ended", "agent=%s worker=%u how=\"%s\"", agent->plan->name,
                 w->number, how);
    }
    w->number = 0;
    next_pause(w);
    set_state(w, WORKER_RESTING);
    agent_fail_queue(agent);
    fiber_wake(agent->agents->ending);
}
