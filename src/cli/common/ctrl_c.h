/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ctrl-C: SIGINT and SIGTERM make a descriptor readable, which cancels the run. A second signal
 * ends the program immediately (the launcher then kills the box).
 *
 * Handlers rather than a blocked mask, because programs started later would inherit the mask.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

#define EXIT_INTERRUPTED 130

/* Also keeps SIGPIPE from ending the program: a write reports EPIPE instead. */
int ctrl_c_install(struct err *e);

int ctrl_c_fd(void);     /* borrowed; readable once interrupted */
void ctrl_c_raise(void); /* cancels as a signal would, but ctrl_c_seen() stays false */
bool ctrl_c_seen(void);
