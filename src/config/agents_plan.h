/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan of served agents: for each agent its file, its limits and its address.
 *
 * `husk agents up` creates it from what discovery found. The supervisor reads it to know what it
 * may start, huskd to know what it serves; both refer to an agent by its index in the plan. It is
 * passed as the descriptor of a sealed file in memory, which no other process can reach or change.
 *
 *     AUTO(agents_plan_release) struct agents_plan plan = {0};
 *     if (agents_plan_read_sealed(fd, &plan, &e) < 0) { ... e.msg names agent and field ... }
 *     for (size_t i = 0; i < plan.n_agents; i++) { use(plan.agents[i].name); }
 *
 * A plain value. A text with anything unknown, missing, repeated or out of range is refused.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define AGENTS_PLAN_VERSION 1
#define AGENTS_PLAN_FILE_MAX ((size_t)4 << 20)
#define AGENTS_PLAN_AGENTS_MAX 256
#define AGENTS_PLAN_REPLICAS_MAX 64
#define AGENT_NAME_MAX 64    /* end included */
#define AGENT_PREFIX_MAX 256 /* end included */

enum agent_kind { AGENT_KIND_AGENT, AGENT_KIND_MCP };

enum agent_streams { AGENT_STREAM_TEXT = 1, AGENT_STREAM_EVENTS = 2 };

struct agent_plan {
    char name[AGENT_NAME_MAX];           /* letters, digits, '_' and '-'; does not start with '-' */
    char framework[AGENT_NAME_MAX];      /* "pydantic_ai", "callable", ...; only shown */
    char route_prefix[AGENT_PREFIX_MAX]; /* "/agents/x": no '/' at the end; not a path of huskd */
    char *file;                          /* absolute; borrowed from the plan's document */
    enum agent_kind kind;
    bool main;                   /* run the file as __main__ */
    bool chat;                   /* has run(data) of AgentProtocol */
    uint32_t streams;            /* enum agent_streams */
    uint32_t cpu_milli;          /* 1000 is one core; 1 to 1,024,000 */
    uint32_t gpu_milli;          /* 0: none */
    uint64_t memory_bytes;       /* of one worker; at least 16 MiB */
    uint32_t replicas;           /* workers; 1 to AGENTS_PLAN_REPLICAS_MAX */
    uint32_t max_in_flight;      /* concurrent requests of one worker; 1 to 10,000 */
    uint32_t queue_length;       /* requests that may wait for a worker; 0 to 100,000 */
    uint64_t request_timeout_ms; /* 1 to a day */
    uint32_t retries;            /* of a request whose worker died after it had begun; 0 to 10 */
};

/* A file that discovery could not use. */
struct agent_failure {
    const char *file; /* borrowed from the plan's document, as are the others */
    const char *error;
    const char *traceback;
};

struct agents_plan {
    char *python; /* absolute path of the interpreter; owned, as is what follows */
    char *folder; /* absolute path of the project: the workers' working directory */
    char *sdk;    /* put first in PYTHONPATH; absolute, or "" if the interpreter has husk */
    struct agent_plan *agents;
    size_t n_agents;
    struct agent_failure *failed;
    size_t n_failed;
    struct json_t *document; /* the parsed text */
};

/* *ret must be zeroed; it is empty again on -1. origin names the text in messages. */
int agents_plan_parse(const char *text, size_t n, const char *origin, struct agents_plan *ret,
                      struct err *e);

/*
 * The same for the output of discovery, which has no python, folder and sdk: they stay NULL, and
 * the caller sets them (strdup()).
 */
int agents_plan_parse_found(const char *text, size_t n, const char *origin, struct agents_plan *ret,
                            struct err *e);

/*
 * Returns the descriptor of a sealed file in memory with the plan's text, or -1. NULL: no agents
 * are served. Refuses a plan that could not be read back.
 */
int agents_plan_seal(const struct agents_plan *plan, struct err *e);
/* Refuses a descriptor whose content can change. *ret must be zeroed. */
int agents_plan_read_sealed(int fd, struct agents_plan *ret, struct err *e);

void agents_plan_release(struct agents_plan *plan);
