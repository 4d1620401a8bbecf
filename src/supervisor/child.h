/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the supervisor: how launcher and daemon are started, and as whom.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "config/config.h"
#include "supervisor/settings.h"
#include "supervisor/supervisor.h"

struct account {
    uid_t uid;
    gid_t gid;
    bool switch_to; /* another one than ours */
};

/* What both are started with. */
struct child_kit {
    const struct supervisor_options *o; /* borrowed */
    struct account account;             /* of the daemon */
    struct settings *settings;          /* borrowed; for the daemon */
    struct listeners listeners;         /* for the daemon */
};

struct child {
    pid_t pid;  /* 0: it does not run */
    int socket; /* to speak with it, owned; -1: none */
};

int account_find(const struct config *c, struct account *ret, struct err *e);

int child_start_launcher(const struct child_kit *kit, struct child *ret, struct err *e);

/*
 * With the settings, a new connection to the launcher, and the listening sockets. One that cannot
 * get them runs in spite of -1, without a socket: it ends by that.
 */
int child_start_daemon(const struct child_kit *kit, const struct child *launcher,
                       struct child *daemon, struct err *e);
