/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers of served agents: processes that the supervisor starts and ends when the daemon asks for
 * it.
 *
 * The daemon names an agent of the plan, never a command: the plan is read before the first daemon
 * starts, from the sealed plan of the command or from a file of the operator. Each worker is run by
 * `husk limited`, which ends all its descendants.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"
#include "config/config.h"

struct workers;

/* All borrowed. */
struct workers_options {
    const struct config *config; /* may name the file of a plan */
    const char *daemon;          /* path of huskd; husk is beside it */
    int plan;   /* sealed, from the command; -1: use the file that the settings name */
    int output; /* for stdout and stderr of workers; -1: they keep ours */
};

int workers_open(const struct workers_options *o, struct workers **ret, struct err *e);
int workers_plan(const struct workers *w); /* sealed, for the daemon; borrowed */
void workers_close(struct workers *w);     /* kills and waits; NULL is fine */

/* Handles a message of the daemon; one that is no valid worker message is logged and dropped. */
void workers_hear(struct workers *w, int daemon_socket, const void *data, size_t n);

/* False: the process is no worker. */
bool workers_reap(struct workers *w, pid_t pid, int status);

/* Whether ends were not reported to the daemon yet; reports as many as the socket takes. */
bool workers_owe(const struct workers *w);
void workers_tell(struct workers *w, int daemon_socket);

bool workers_any(const struct workers *w);       /* at least one runs */
void workers_end(struct workers *w, int signal); /* sends the signal to all */
/* The daemon has ended: signals the workers it left behind. */
void workers_orphan(struct workers *w, int signal);
