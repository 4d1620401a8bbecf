/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the supervisor: the pipes of all its children (output.h). Each kind of child has its
 * own, so that a daemon that fills its pipe cannot block the launcher.
 */
#pragma once

#include <poll.h>

#include "supervisor/output.h"

enum output_source {
    OUTPUT_DAEMON,
    OUTPUT_LAUNCHER,
    OUTPUT_WORKERS, /* open only if stderr is our log file */
    OUTPUT_SOURCES,
};

#define OUTPUTS_POLLED (OUTPUT_SOURCES + 1) /* and stderr */

struct outputs {
    struct output all[OUTPUT_SOURCES];
    struct output_sink sink;
};

/* folder: DATA, if stderr is its husk.log; else -1. Borrowed, as is the configuration. */
int outputs_open(struct outputs *o, const struct config *c, int folder, struct err *e);
void outputs_close(struct outputs *o); /* passes on what is left */

/* Fills in what to poll: the pipes of children, or stderr while it is full. */
void outputs_poll(const struct outputs *o, struct pollfd ret[OUTPUTS_POLLED]);
void outputs_pump(struct outputs *o, const struct pollfd polled[OUTPUTS_POLLED]);
void outputs_finish(struct outputs *o, enum output_source source); /* when that child has ended */

/* For a child's descriptors 1 and 2; -1: it keeps ours. Borrowed. */
int outputs_end_of(const struct outputs *o, enum output_source source);
