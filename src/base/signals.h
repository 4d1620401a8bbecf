/* SPDX-License-Identifier: Apache-2.0 */
/* What a program does with signals before anybody has said anything about them. */
#pragma once

/*
 * The default action for every signal, and none blocked. What a caller ignores or blocks would be
 * inherited by all that is started from here: a pipe that does not end its writer, a terminal that
 * stops nobody, and with SIGCHLD children that nobody can wait for.
 */
void signals_reset(void);
