/* SPDX-License-Identifier: Apache-2.0 */
/* Signals as a program finds them when it starts. */
#pragma once

/*
 * Sets the default action for every signal and blocks none. Otherwise all programs started from
 * here would inherit what our caller ignores or blocks: a closed pipe would not end its writer,
 * Ctrl-C would not work, and with SIGCHLD ignored a parent could not wait for its children.
 */
void signals_reset(void);
