/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A context in a language whose interpreter cannot be forked warm: shell, JavaScript, and the
 * process of a single command.
 *
 * A driver is a process that PID 1 forks as it forks every context, and the leader of its group. It
 * speaks the frames of the control socket, holds the pipes of the cell that runs, and has the
 * interpreter as its only child. Interpreters cannot receive descriptors, so they open the pipes as
 * /proc/DRIVER/fd/N. A socket, the link, carries cells to the interpreter and results back.
 *
 * User code can trace or kill its driver: what a driver says is a claim, as of every context.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "wire/frame.h"

/* Where the interpreters of this box are; NULL: in the usual place. */
struct driver_paths {
    const char *shell;
    const char *javascript;
};

struct driver_kind;

/* The kind that a CONTEXT frame asks for. False: one of that name does not exist. */
bool driver_find(const struct buf *body, const struct driver_kind **ret); /* NULL: PID 1's own */

/*
 * Serves the control socket until its end, in a new process whose signals are as PID 1 has them.
 * Reports FAILED instead of READY if the interpreter does not start.
 */
void driver_serve(const struct driver_kind *kind, const struct driver_paths *paths) NORETURN;
