/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the supervisor: the settings in effect. They are read when the server starts and on
 * SIGHUP, and at no other time. Every daemon gets those that were accepted last from here, and
 * DATA/settings has them for `husk down`. A message of a daemon never changes them.
 */
#pragma once

#include <stdbool.h>

#include "supervisor/supervisor.h"

struct settings {
    const struct supervisor_options *o; /* borrowed; o->config has the settings in effect */
    int folder;                         /* DATA, borrowed */
    bool owed;                          /* the running daemon has not got the new ones yet */
    char refused[800];                  /* why the last read was refused; "": it was not */
};

/* Saves them for later commands, when the file may be broken. Logs a failure. */
void settings_save(const struct settings *s);

/*
 * Reads the settings again and takes those that can change while the server runs. Wrong settings
 * change nothing and are logged.
 */
void settings_read(struct settings *s);

/*
 * Sends them to a new daemon, with its descriptors; blocks. 0 or -errno. Logs a warning if newer
 * ones were refused.
 */
int settings_give(struct settings *s, int daemon, const int *fds, size_t n_fds);
/* Sends owed settings to the running daemon if its socket has room. */
void settings_tell(struct settings *s, int daemon);
