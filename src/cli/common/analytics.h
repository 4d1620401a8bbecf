/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Analytics: how often which command was used, counted in one readable file of this machine, if
 * the user asks for it.
 *
 * Off unless `analytics on` made the file $XDG_STATE_HOME/husk/analytics.json
 * (~/.local/state/husk/analytics.json). Holds names of commands and frameworks with their counts
 * and nothing else. There is no code that sends it anywhere. RAYAI_DO_NOT_TRACK and DO_NOT_TRACK
 * keep it off whatever the file says.
 */
#pragma once

/*
 * Adds one to each name that is not NULL. What goes wrong is said on stderr; the command goes on.
 */
void analytics_count(const char *command, const char *framework);
