/* SPDX-License-Identifier: Apache-2.0 */
/* Private to workers.c and worker_start.c: starting a worker for an agent of the plan. */
#pragma once

#include <limits.h>

#include "base/err.h"
#include "config/agents_plan.h"
#include "config/config.h"

/* What all workers have in common. */
struct worker_kit {
    struct agents_plan plan;
    int sealed; /* the same for the daemon; owned */
    int output; /* for stdout and stderr, borrowed; -1: they keep ours */
    char husk[PATH_MAX];
    const char *socket; /* of the server, for agents that use sandboxes; borrowed */
};

/* A worker that was just started. Owns both descriptors. */
struct worker_process {
    pid_t pid;
    int socket; /* to the worker */
    int report; /* of `husk limited`; does not block */
};

/*
 * given: the sealed plan of the command, borrowed; -1: use the file that the settings name, if any.
 * The kit must be released after a failure, too.
 */
int worker_kit_open(const struct config *c, const char *daemon, int given, struct worker_kit *ret,
                    struct err *e);
void worker_kit_release(struct worker_kit *kit);
/* 0 or -errno. */
int worker_start(const struct worker_kit *kit, const struct agent_plan *agent,
                 struct worker_process *ret);
