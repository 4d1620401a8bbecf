/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Analytics: counts in one readable local file how often each command was used, if the user turns
 * it on.
 *
 * Off unless `analytics on` created the file $XDG_STATE_HOME/husk/analytics.json
 * (~/.local/state/husk/analytics.json). The file has names of commands and frameworks with their
 * counts and nothing else. No code sends it anywhere. RAYAI_DO_NOT_TRACK and DO_NOT_TRACK keep it
 * off regardless of the file.
 */
#pragma once

/*
 * Adds one to each name that is not NULL. A failure is reported on stderr and does not stop the
 * command.
 */
void analytics_count(const char *command, const char *framework);
