/* SPDX-License-Identifier: Apache-2.0 */
/* Private to workers.c and worker_start.c: what is run for an agent of the plan. */
#pragma once

#include <limits.h>

#include "base/err.h"
#include "config/agents_plan.h"
#include "config/config.h"

/* What all workers have in common. */
struct worker_kit {
    struct agents_plan plan;
    int sealed; /* the same for the daemon; owned */
    int output; /* what they print goes there, borrowed; -1: where our own does */
    char husk[PATH_MAX];
    const char *socket; /* of the server, for agents that use sandboxes; borrowed */
};

/* A worker that was just started. Both descriptors are owned by whoever holds this. */
struct worker_process {
    pid_t pid;
    int socket; /* to speak with it */
    int report; /* of `husk limited`; does not block */
};

/*
 * given: the sealed plan of the command, borrowed; -1: the file that the settings name, or none. On
 * -1 the kit is still to be released.
 */
int worker_kit_open(const struct config *c, const char *daemon, int given, struct worker_kit *ret,
                    struct err *e);
void worker_kit_release(struct worker_kit *kit);
/* 0 or -errno. */
int worker_start(const struct worker_kit *kit, const struct agent_plan *agent,
                 struct worker_process *ret);
