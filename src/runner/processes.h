/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many processes a session's box may have: its users, and we.
 *
 * PID 1 has a hard limit above the one of user code (LIMITS_OWN_PIDS). It raises its soft limit for
 * the moment in which it forks a file worker. Contexts, and all that they start, have the lower
 * limit as their hard one, which no process in a box can raise.
 */
#pragma once

#include <stdbool.h>

int processes_open(void);  /* in PID 1, before there is user code; 0 or -errno */
int processes_bound(void); /* in a new context or worker: never more than the users' part */
void processes_use_reserve(bool on);
