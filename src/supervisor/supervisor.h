/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `husk up`: keeps a launcher and a daemon running, and the workers of agents that the daemon asks
 * for (workers.h).
 *
 * The supervisor binds the sockets, so that no connection is refused while the daemon restarts, and
 * gives each new daemon a new connection to the same launcher, which has kept the boxes. It reads
 * nothing that clients or boxes send. Only the supervisor reads settings; daemons get those that
 * were accepted last (settings.h).
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "config/config.h"
#include "wire/launcher_msg.h"
#include "wire/supervisor_msg.h"

struct supervisor_options {
    struct config *config; /* updated when the settings are read again */
    /* Reads the settings again. *ret is zeroed. */
    int (*load)(void *user, struct config *ret, struct config_report *report, struct err *e);
    /*
     * Passes the operator's definition that the launcher wants to put(), frame by frame, up to its
     * start; see core/template_fill.h.
     */
    int (*define)(void *user, const struct launcher_want *want,
                  int (*put)(void *to, struct launcher_req *req, const int *fd, struct err *e),
                  void *to, struct err *e);
    const char *launcher; /* paths of the programs */
    const char *daemon;
    const char *lib;  /* the folder of husk's own files */
    int plan;         /* of agents, sealed; -1: use the file that the settings name, if any */
    bool is_detached; /* stderr is DATA/husk.log: keep it small */
    void (*on_ready)(void *user); /* the first daemon serves */
    void *user;
};

/* Runs until SIGTERM or SIGINT, then ends all of them. -1 and *e if it could not start. */
int supervisor_run(const struct supervisor_options *options, struct err *e);
/* The longest time that the end can take, if one daemon is killed and another one saves files. */
uint64_t supervisor_end_ms(const struct config *c);

/* listeners.c */
struct listeners {
    int fds[SUPERVISOR_LISTENERS_MAX];
    size_t n;
};

/*
 * Binds all addresses of the configuration; retries for patience_ms. The unix socket gets owner and
 * group.
 */
int listeners_open(const struct config *c, uid_t owner, gid_t group, unsigned patience_ms,
                   struct listeners *ret, struct err *e);
void listeners_close(struct listeners *l, const struct config *c); /* removes the unix socket */
