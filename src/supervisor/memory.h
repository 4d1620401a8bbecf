/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the supervisor: the daemon's own memory limit.
 *
 * Called in the child that becomes the daemon, before it loses the right to create cgroups. The
 * cgroup is named after that process, so that a sweep never removes it while the daemon runs. A
 * guard process removes it when the daemon has ended, even after kill -9 of the supervisor.
 */
#pragma once

#include "config/config.h"

/* Logs a warning, and leaves the daemon without a limit, where cgroups cannot limit memory. */
void memory_limit_self(const struct config *c);
