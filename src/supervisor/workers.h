/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers of served agents: processes that the supervisor starts and ends on the daemon's word.
 *
 * The daemon says which agent of the plan, never what to run: the plan was read before there was a
 * daemon, from what the command that runs us sealed, or from a file of the operator's. Each worker
 * is a `husk limited`, which ends all that the worker started.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"
#include "config/config.h"

struct workers;

/* What workers_open() needs. Everything is borrowed. */
struct workers_options {
    const struct config *config; /* may name the file of a plan */
    const char *daemon;          /* path of huskd; husk is beside it */
    int plan;                    /* sealed, made by the command; -1: none, the settings count */
    int output;                  /* what workers print goes there; -1: where our own does */
};

int workers_open(const struct workers_options *o, struct workers **ret, struct err *e);
int workers_plan(const struct workers *w); /* sealed, for the daemon; borrowed */
void workers_close(struct workers *w);     /* kills and waits; NULL is fine */

/* What the daemon said: checked, and refused with a line in the log if it is no worker message. */
void workers_hear(struct workers *w, int daemon_socket, const void *data, size_t n);

/* False: it is none of ours. */
bool workers_reap(struct workers *w, pid_t pid, int status);

/* Ends that the daemon has to hear of yet, and telling it as many as it takes now. */
bool workers_owe(const struct workers *w);
void workers_tell(struct workers *w, int daemon_socket);

bool workers_any(const struct workers *w);       /* some run */
void workers_end(struct workers *w, int signal); /* sends it to all */
/* The daemon has ended: whoever it had is nobody's now and gets the signal. */
void workers_orphan(struct workers *w, int signal);
