/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the supervisor: the settings that count. They are read when the server starts and when
 * somebody asks for it (SIGHUP), and at no other time; every daemon gets those that were accepted
 * last, from here, and DATA/settings has them for `husk down`. What a daemon says never changes
 * them.
 */
#pragma once

#include <stdbool.h>

#include "supervisor/supervisor.h"

struct settings {
    const struct supervisor_options *o; /* borrowed; o->config is what counts */
    int folder;                         /* DATA, borrowed */
    bool owed;                          /* the daemon that runs has to hear of new ones */
    char refused[800];                  /* what was wrong when they were read last; "": nothing */
};

/* For commands that run later, when the file may be broken. Logs. */
void settings_save(const struct settings *s);

/* Takes what may change while the server runs. Wrong settings change nothing. Logs. */
void settings_read(struct settings *s);

/*
 * To a daemon that starts, with its descriptors; waits. 0 or -errno. The log says so if those are
 * not the ones that were read last.
 */
int settings_give(struct settings *s, int daemon, const int *fds, size_t n_fds);
/* To the daemon that runs, if it has to hear of them and takes them now. */
void settings_tell(struct settings *s, int daemon);
