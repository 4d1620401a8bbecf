/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the supervisor: answers the launcher, which asks for the definition of a template that
 * its client has named, over the supervisor's own socket (wire/launcher_msg.h). Definitions are
 * read from the operator's files with the supervisor's rights; only the name comes from the daemon.
 *
 * The supervisor never waits for the launcher. Frames that do not fit into the socket are owed, and
 * the next question is read when all of them are sent: at most one answer is held.
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

/* Answers one question, if there is one and nothing is owed. False: the launcher has hung up. */
bool definitions_serve(struct definitions *d, const struct supervisor_options *o, int launcher);

bool definitions_owe(const struct definitions *d);          /* wait for POLLOUT, not POLLIN */
void definitions_tell(struct definitions *d, int launcher); /* sends what fits */
void definitions_drop(struct definitions *d);               /* that launcher is gone */
