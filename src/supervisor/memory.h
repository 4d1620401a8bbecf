/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the supervisor: the daemon's own memory limit.
 *
 * Called in the child that becomes the daemon, while it may still make cgroups. The cgroup is
 * named after that process, so that a sweep never takes it from a daemon that lives, and a guard
 * of its own removes it when the daemon has ended, even after kill -9 of the supervisor.
 */
#pragma once

#include "config/config.h"

/* Where cgroups cannot limit memory, the log says so and the daemon runs without. */
void memory_limit_self(const struct config *c);
