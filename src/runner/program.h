/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PID 1 of a box whose language cannot be forked warm: starts the interpreter as a child, reaps,
 * and reports how it ended. The child may be started ahead of its code (node) or with it (bash).
 *
 * PID 1 is not dumpable and keeps the control socket to itself, so user code cannot forge its
 * report.
 */
#pragma once

#include <stdbool.h>

struct program {
    char *const *argv; /* interpreter and its fixed arguments, NULL-terminated */
    bool prestart;     /* start it before the code arrives; it reads a RUN body from descriptor 4 */
};

/* Serves one RUN and ends the process. */
void program_serve(const struct program *p) __attribute__((noreturn));
