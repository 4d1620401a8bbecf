/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Served agents, as huskd sees them: which there are, their workers, and requests to them.
 *
 * An agent has as many workers as the plan says: processes of the user's code that the supervisor
 * starts for us and that exchange frames (agents/agent_frame.h). A worker that dies, hangs or
 * breaks the protocol is replaced. Of its requests, those that the agent had not begun move to
 * another worker, and the others fail, unless the plan allows to repeat them. Knows nothing of HTTP
 * routes; the handlers in api/ do.
 *
 * Everything happens on the loop's thread. What waits, waits in a fiber.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agents/agent_frame.h"
#include "base/err.h"
#include "config/agents_plan.h"

struct agents;
struct agent;
struct uv_loop_s;

/* ---- the whole ---- */

/*
 * Starts and kills workers. Agents are named by their index in the plan, workers by a number that
 * is used once.
 */
struct agents_starter {
    int (*start)(void *user, uint32_t agent, uint32_t worker); /* 0 or -errno */
    int (*kill)(void *user, uint32_t worker, int signum);      /* 0 or -errno */
    void *user;
};

/* Starts the workers. plan and loop are borrowed for ever. NULL and *e on failure. */
struct agents *agents_open(const struct agents_plan *plan, struct uv_loop_s *loop,
                           const struct agents_starter *starter, struct err *e);

/* Messages of the supervisor. Numbers of unknown workers are ignored. */
void agents_on_started(struct agents *a, uint32_t worker, int fd); /* fd is taken */
void agents_on_failed(struct agents *a, uint32_t worker, int sys_errno);
void agents_on_exited(struct agents *a, uint32_t worker, int status, bool out_of_memory);

/*
 * Stops starting workers and taking requests. agents_end() lets workers finish for at most ms; it
 * waits in a fiber.
 */
void agents_stop(struct agents *a);
void agents_end(struct agents *a, unsigned ms);

const struct agents_plan *agents_plan_of(const struct agents *a);

/* ---- one agent ---- */

struct agent *agents_find(struct agents *a, const char *name); /* NULL: none */
/*
 * The agent with the longest prefix that the path begins with; *ret_rest is the rest of the path.
 */
struct agent *agents_find_path(struct agents *a, const char *path, const char **ret_rest);
struct agent *agents_at(struct agents *a, size_t index); /* as in the plan */
const struct agent_plan *agent_plan_of(const struct agent *agent);

enum agent_health { AGENT_STARTING, AGENT_HEALTHY, AGENT_UNHEALTHY };

struct agent_figures {
    enum agent_health health;
    const char *failure; /* why the last worker failed, as text for people; "": none did */
    uint32_t ready;      /* workers */
    uint32_t in_flight;
    uint32_t queued;
    uint64_t requests;
    uint64_t errors; /* of these: answered with 5xx */
    uint64_t restarts;
};

void agent_figures(const struct agent *agent, struct agent_figures *ret);

/* ---- a request ---- */

struct agent_call;

/* One frame of the answer. The caller of agent_call_next() owns it. */
struct agent_answer {
    struct agent_answer *next;
    uint32_t type;
    json_t *value; /* from agent_payload_read() */
    size_t len;
    char data[]; /* the payload; a NUL follows */
};

void agent_answer_free(struct agent_answer *answer); /* NULL is fine */

struct agent_request {
    enum agent_frame_type type; /* AGENT_CALL, AGENT_CHAT or AGENT_HTTP */
    const char *payload;        /* borrowed until agent_call_open() returns */
    size_t len;
    /* Requests of a session go to one worker as long as it lives. NULL: to any. Borrowed. */
    const char *session;
    /* The client has gone. The fiber is woken when this becomes true. */
    bool (*is_gone)(void *user);
    void *user;
};

/*
 * Gives the request to the least busy worker, or to its session's; waits while that is busy. In a
 * fiber. NULL and *e on failure; ERR_NONE: the client has gone. Must be closed.
 */
struct agent_call *agent_call_open(struct agent *agent, const struct agent_request *request,
                                   struct err *e);

enum agent_step {
    AGENT_STEP_ANSWER, /* *ret. AGENT_ERROR: the agent itself reports an error; the last frame */
    AGENT_STEP_QUIET,  /* nothing for that long */
    AGENT_STEP_FAILED, /* *e; nothing more comes */
    AGENT_STEP_GONE,   /* the client has gone */
};

/* The next frame of the answer. Waits for at most ms (negative: as long as the agent may take). */
enum agent_step agent_call_next(struct agent_call *call, int64_t ms, struct agent_answer **ret,
                                struct err *e);
bool agent_call_has_answer(const struct agent_call *call);

/*
 * More of the request: AGENT_BODY or AGENT_END. Waits while the worker is slow. -1:
 * agent_call_next() reports why.
 */
int agent_call_send(struct agent_call *call, enum agent_frame_type type, const char *data,
                    size_t len);

/* Cancels the request if it is not over. */
void agent_call_close(struct agent_call *call);
