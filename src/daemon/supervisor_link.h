/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's end of the supervisor's socket (wire/supervisor_msg.h): what it is started with, and
 * what either says later.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/fd.h"
#include "config/config.h"

/* *ret_settings must be zeroed. The listening sockets are owned by the caller then. */
int supervisor_link_start(struct config *ret_settings, int *ret_launcher,
                          struct fd_set_msg *ret_listeners, struct err *e);

void supervisor_link_tell_ready(void);
void supervisor_link_ask_settings(void); /* to be read again; they come if nothing is wrong */

/*
 * Takes what the supervisor has said. on_settings may keep parts of fresh by config_reload().
 * False: it is gone.
 */
bool supervisor_link_hear(void (*on_settings)(struct config *fresh));
