/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Insides of served agents, shared by the files of this folder.
 *
 *   worker.c     the life of a worker process: start, health, end, restart
 *   worker_io.c  its socket: frames out and in
 *   slots.c      which requests it has
 *   agent_call.c a request: its start, its answer, its end
 *   agent_dispatch.c  which worker gets which request: queue, sessions, what a dead worker had
 *   agents.c     the table of agents
 */
#pragma once

#include "agents/agents.h"
#include "base/buf.h"
#include "base/fiber.h"

/* Last: its MIN and MAX clash with those of base/attr.h unless they come after. */
#include <uv.h>

#define BACKOFF_FIRST_MS 100
#define BACKOFF_MOST_MS 30000
#define HEALTHY_MS 60000 /* after this long the next pause is the first one again */
#define START_MS 300000  /* imports of large frameworks take their time */
#define PING_MS 10000    /* between pings */
#define PONG_MS 10000    /* of an idle worker */
#define PONG_AFTER_TIMEOUT_MS 5000
#define CANCELLED_MS 30000 /* a worker that goes on with a cancelled request for longer is stuck */
#define DRAIN_MS 5000      /* from DRAIN or SIGTERM to SIGKILL */
#define EXIT_MS 2000       /* from the end of its socket to the supervisor's report */
#define NO_WORKER_MS 10000 /* a request waits this long for a first worker */
#define STALL_MS 5000      /* a client that takes nothing blocks its worker for this long at most */
#define BACKLOG_HIGH ((size_t)4 << 20) /* bytes of one answer that its client has not taken */
/* Of all answers of an agent. Beyond it, each may have BACKLOG_LOW. */
#define AGENT_BACKLOG_HIGH ((size_t)64 << 20)
#define BACKLOG_LOW ((size_t)64 << 10)
#define OUT_HIGH ((size_t)4 << 20) /* bytes that wait for the worker: it gets no new request */
#define OUT_MAX ((size_t)64 << 20)
#define FAILURE_MAX 4096 /* of the text why a worker failed */

enum worker_state {
    WORKER_RESTING,  /* no process; the timer starts one */
    WORKER_STARTING, /* asked for, or not READY yet */
    WORKER_WORKING,
    WORKER_LEAVING, /* told to finish */
    WORKER_ENDING,  /* its socket is closed; the supervisor reports how it ended */
};
#define WORKER_STATES (WORKER_ENDING + 1)

/* A request of a worker. Its id combines the slot's number and how often the slot was used. */
struct slot {
    struct agent_call *call; /* NULL: cancelled, or free */
    bool is_alone;           /* the worker gets no other request meanwhile */
    uint32_t uses;
    uint32_t next_free;
    bool is_used;
};

/* A watched socket; separate from its worker because libuv releases it later. */
struct worker_link {
    uv_poll_t poll;
    struct worker *worker; /* NULL: closed */
    int fd;
    bool waits_for_room;
    bool is_paused; /* not read: a client is slow */
};

struct worker {
    struct agent *agent;
    enum worker_state state;
    uint32_t number; /* of its process */
    struct worker_link *link;
    struct buf in;
    struct buf out;
    size_t out_at; /* bytes of it that have left */
    bool is_dirty; /* on the list of workers with output to write */
    struct worker *next_dirty;

    struct slot *slots; /* as many as max_in_flight */
    uint32_t n_slots;
    uint32_t first_free; /* n_slots: none */
    uint32_t in_flight;  /* cancelled ones included */
    bool is_reserved;    /* has a request that runs alone */
    uint32_t cancelled;
    uint32_t sending; /* calls that wait for room in `out` */
    uint32_t n_full;  /* calls with too much for their clients to take: nothing is read meanwhile */
    uint64_t full_ms; /* since when */

    uv_timer_t timer;
    uint64_t state_ms;      /* since when */
    uint64_t ping_at;       /* when the next one is due */
    uint64_t pong_due;      /* 0: none is out */
    bool must_pong;         /* also while it works */
    uint64_t cancelled_due; /* when cancelled requests must be over */
    uint64_t ready_ms;      /* when it got ready; 0: it did not */
    uint64_t backoff_ms;
    char reason[FAILURE_MAX]; /* why it ends, if known before its exit */
};

struct agent {
    struct agents *agents;
    const struct agent_plan *plan;
    uint32_t index;
    struct worker *workers; /* part of agents->workers */
    uint32_t n_workers;
    struct agent_call *queue_first;
    struct agent_call *queue_last;
    uint32_t queued;
    size_t backlog; /* bytes of answers that wait for their clients */
    uint64_t requests;
    uint64_t errors;
    uint64_t restarts;
    bool cannot_start; /* the last attempt to start a worker failed */
    char failure[FAILURE_MAX];
};

struct agents {
    const struct agents_plan *plan;
    uv_loop_t *loop;
    struct agents_starter starter;
    uv_prepare_t prepare; /* writes what the turn of the loop has gathered */
    struct worker *dirty;
    struct agent *list;
    size_t n;
    struct worker *workers; /* of all agents, one after the other */
    size_t n_workers;
    uint32_t next_number;
    bool is_stopping;
    bool has_moved;       /* requests of dead workers wait for others */
    struct fiber *ending; /* waits in agents_end() */
};

struct agent_call {
    struct agent *agent;
    struct agent_request request;
    struct worker *worker; /* NULL: waits in the queue, or is over */
    uint32_t id;
    struct fiber *waiter;
    struct agent_call *next; /* in the queue */
    char *payload;           /* a copy for another worker; NULL: it cannot move any more */
    uint32_t home;           /* hash of its session; 0: none */
    uint32_t moves;
    uint32_t retries;
    bool has_begun;    /* the agent's code was called, by this worker */
    bool has_answered; /* its client may have seen a part of the answer */
    bool is_alone;     /* suspected of ending workers: runs with no other beside it */
    bool is_queued;
    bool is_sending;
    struct agent_answer *first;
    struct agent_answer *last;
    size_t backlog;
    bool is_full;        /* counted in the worker's n_full */
    uint64_t touched_ms; /* when the client or the worker last made progress */
    struct err error;
};

/* ---- worker.c ---- */

int worker_init(struct worker *w, struct agent *agent); /* 0 or -errno */
void worker_begin(struct worker *w);                    /* starts it with the loop's next turn */
void worker_on_started(struct worker *w, int fd);
void worker_on_exit(struct worker *w, const char *how);
void worker_on_ready(struct worker *w);
void worker_on_failed(struct worker *w, const json_t *said);
void worker_on_pong(struct worker *w);
void worker_demand_pong(struct worker *w); /* or the worker is replaced */
void worker_drain(struct worker *w);
void worker_arm(struct worker *w); /* sets the timer for what is due next */
/* Kills the process at once and fails its requests with that reason. */
void worker_condemn(struct worker *w, const char *fmt, ...) PRINTF_LIKE(2, 3);
void worker_on_eof(struct worker *w);

/* ---- worker_io.c ---- */

int worker_connect(struct worker *w, int fd); /* fd is taken. 0 or -errno */
void worker_disconnect(struct worker *w);
void worker_read(struct worker *w); /* may condemn the worker */
/* Queues a frame; it leaves at the end of this turn of the loop. 0 or -errno. */
int worker_send(struct worker *w, const struct agent_frame *frame, const char *payload);
void worker_flush_all(struct agents *a);

void worker_pause(struct worker *w, bool is_paused); /* or reads on */

/* ---- slots.c ---- */

/* NULL: the worker has no such request. */
struct slot *worker_find_slot(struct worker *w, uint32_t id);
void worker_free_slot(struct worker *w, struct slot *slot);

bool worker_has_room(const struct worker *w);
uint32_t worker_take_slot(struct worker *w, struct agent_call *call); /* its id; there is room */
void worker_cancel(struct worker *w, uint32_t id);
/* Sets whether the client of one of its calls has enough to take for now. */
void worker_set_full(struct worker *w, struct agent_call *call, bool is_full);
void worker_fail_slow(struct worker *w);     /* the requests of slow clients */
void worker_suspect_calls(struct worker *w); /* takes every request for begun */
/* Every request of the worker fails, or moves to another one. */
void worker_fail_calls(struct worker *w, const struct err *why);

/* ---- agent_dispatch.c ---- */

uint32_t agent_home_of(const char *session); /* NULL: 0 */
bool agent_is_any_ready(const struct agent *agent);
/* True: a worker has the request, or it has failed. The request is not in the queue. */
bool agent_give(struct agent_call *call);
void agent_enqueue(struct agent_call *call);
void agent_dequeue(struct agent_call *call);
void agent_dispatch(struct agent *agent); /* gives waiting requests to workers that have room */
void agent_dispatch_moved(struct agents *a);
/* The call's worker has died: true if another one gets it, in the loop's next turn. */
bool agent_call_move(struct agent_call *call);
void agent_call_begun(struct agent_call *call);

/* ---- agent_call.c ---- */

void agent_fail_queue(struct agent *agent);
void agent_call_take(struct agent_call *call, struct agent_answer *answer); /* one more frame */
void agent_call_fail(struct agent_call *call, const struct err *why);
