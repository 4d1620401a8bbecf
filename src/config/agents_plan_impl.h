/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the plan of agents: agents_plan.c reads, agents_plan_write.c checks and writes,
 * agents_plan_seal.c seals.
 */
#pragma once

#include "config/agents_plan.h"

#define AGENTS_PLAN_PATH_MAX 4095

enum { AGENT_KINDS = 2, AGENT_STREAMS = 2 };
extern const char *const agent_kind_names[AGENT_KINDS];     /* by enum agent_kind */
extern const char *const agent_stream_names[AGENT_STREAMS]; /* by bit of enum agent_streams */

/*
 * Checks ranges, names, paths, and that nothing appears twice. `found`: python, folder and sdk are
 * not set yet.
 */
int agents_plan_check(const struct agents_plan *plan, bool found, const char *origin,
                      struct err *e);

/*
 * The text that agents_plan_parse() reads, owned; NULL without memory or if a string is not UTF-8.
 */
char *agents_plan_text(const struct agents_plan *plan);
