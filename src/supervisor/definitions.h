/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the supervisor: the launcher asks for the definition of a template that its client has
 * named, and gets it over the supervisor's own socket (wire/launcher_msg.h). What it consists of is
 * read from the operator's files, with the supervisor's rights; the name is all that comes from the
 * daemon.
 *
 * The launcher is never waited for. What it does not take at once is owed, and its next question is
 * read when it has taken all of it: so at most one answer is held.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "supervisor/supervisor.h"

struct definitions_frame;

/* Zeroed, nothing is owed. */
struct definitions {
    struct definitions_frame *first; /* owned */
    struct definitions_frame *last;
    size_t n;
};

/* One question, if there is one and nothing is owed. False: the launcher has hung up. */
bool definitions_serve(struct definitions *d, const struct supervisor_options *o, int launcher);

bool definitions_owe(const struct definitions *d); /* POLLOUT is to be waited for, not POLLIN */
void definitions_tell(struct definitions *d, int launcher); /* as much as it takes now */
void definitions_drop(struct definitions *d);               /* that launcher is gone */
