/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the supervisor: starts launcher and daemon, each with its account. Their descriptors 0
 * to 2 are /dev/null and a pipe (output.h): neither has the operator's terminal.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "supervisor/account.h"
#include "supervisor/listeners.h"
#include "supervisor/outputs.h"
#include "supervisor/settings.h"
#include "supervisor/supervisor.h"

/* What both are started with. */
struct child_kit {
    const struct supervisor_options *o; /* borrowed */
    struct account account;             /* of the daemon */
    struct settings *settings;          /* borrowed; for the daemon */
    struct listeners listeners;         /* for the daemon */
    int plan;                           /* sealed; for the daemon, borrowed */
    struct outputs outputs;             /* read what both print */
};

struct child {
    pid_t pid;  /* 0: not running */
    int socket; /* owned; -1: none */
};

int child_start_launcher(const struct child_kit *kit, struct child *ret, struct err *e);

/*
 * Sends the daemon its settings, a new connection to the launcher, and the listening sockets. If
 * that fails after the fork, daemon->pid is set in spite of -1, and the daemon ends because its
 * socket is closed.
 */
int child_start_daemon(const struct child_kit *kit, const struct child *launcher,
                       struct child *daemon, struct err *e);
