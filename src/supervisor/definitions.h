/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the supervisor: the launcher asks for the definition of a template that its client has
 * named, and gets it over the supervisor's own socket (wire/launcher_msg.h). What it consists of is
 * read from the operator's files, with the supervisor's rights; the name is all that comes from the
 * daemon.
 */
#pragma once

#include <stdbool.h>

#include "supervisor/supervisor.h"

/* One question, if there is one. False: the launcher has hung up. */
bool definitions_serve(const struct supervisor_options *o, int launcher);
