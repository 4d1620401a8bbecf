/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PID 1 of a session's box: keeps the pristine interpreter, forks contexts from it, reaps, and
 * passes signals on. Runs no user code, and user code cannot reach into it: it is not dumpable,
 * and a namespace's init ignores signals from inside that it does not handle.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "runner/driver.h"

struct pid1_interpreters {
    bool own; /* PID 1 is one itself: a context is a copy of it */
    struct driver_paths paths;
};

/*
 * Ends with the control socket. Returns only in a new context with PID 1's own interpreter, whose
 * control socket is then BOX_CONTROL_FD.
 */
void pid1_serve(const struct pid1_interpreters *has);

bool pid1_has(pid_t pid);        /* in PID 1: it is a context that was forked here */
bool pid1_has_driver(pid_t pid); /* the same; its only child is its interpreter */
