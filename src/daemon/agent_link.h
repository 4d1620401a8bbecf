/* SPDX-License-Identifier: Apache-2.0 */
/* Workers of served agents, between the supervisor's socket and src/agents. */
#pragma once

#include <uv.h>

#include "agents/agents.h"
#include "base/err.h"
#include "base/fd.h"
#include "wire/supervisor_msg.h"

/* Reads the plan that the supervisor left at SUPERVISOR_PLAN_FD. Once. */
int agent_link_load(struct err *e);

/* Starts what the plan names. *ret is NULL when it names nothing. */
int agent_link_open(uv_loop_t *loop, struct agents **ret, struct err *e);

/* Takes a message of the supervisor; moves the descriptors that it uses out of *fds. */
void agent_link_take(const struct supervisor_worker *m, struct fd_set_msg *fds);
