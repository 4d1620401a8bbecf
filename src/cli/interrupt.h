/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ctrl-C: SIGINT and SIGTERM make a descriptor readable, which cancels the run. A second signal
 * ends the program at once (the launcher then kills the box).
 *
 * Handlers rather than a blocked mask, because programs started later would inherit the mask.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

#define EXIT_INTERRUPTED 130

/* Also keeps SIGPIPE from ending the program: a write reports EPIPE instead. */
int interrupt_install(struct err *e);

int interrupt_fd(void);     /* borrowed; readable once interrupted */
void interrupt_raise(void); /* cancels as a signal would, but interrupt_seen() stays false */
bool interrupt_seen(void);
