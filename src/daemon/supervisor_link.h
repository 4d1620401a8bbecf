/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's end of the supervisor's socket (wire/supervisor_msg.h): what the daemon is started
 * with, and later messages.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/fd.h"
#include "config/config.h"

/* *ret_settings must be zeroed. The caller owns the listening sockets then. */
int supervisor_link_start(struct config *ret_settings, int *ret_launcher,
                          struct fd_set_msg *ret_listeners, struct err *e);

void supervisor_link_tell_ready(void);
void supervisor_link_tell_progress(void);        /* when a workspace was saved at the end */
void supervisor_link_tell_verdict(bool can_run); /* once, when a box was tried */
/* Asks the supervisor to read them again; they arrive if they are valid. */
void supervisor_link_ask_settings(void);

/*
 * Takes the supervisor's messages. on_settings may keep parts of fresh by config_reload(). False:
 * the supervisor is gone.
 */
bool supervisor_link_hear(void (*on_settings)(struct config *fresh));
