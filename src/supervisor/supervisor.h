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
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "config/config.h"

struct launcher_req;

/* The definition of a template that the launcher asks for. */
struct definition_wanted {
    const char *base;
    bool preload;     /* its own modules are imported */
    uint64_t modules; /* of those that it offers, also these: bits */
};

struct supervisor_options {
    struct config *config; /* updated when the settings are read again */
    /* Reads the settings again. *ret is zeroed. */
    int (*load)(void *user, struct config *ret, struct config_report *report, struct err *e);
    /*
     * Passes the operator's definition that the launcher wants to put(), frame by frame, up to its
     * start; see core/template_fill.h.
     */
    int (*define)(void *user, const struct definition_wanted *want,
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

/* A socket bound to an address of the configuration, not listening yet; or -1. */
int listeners_bind_tcp(const char *text, struct err *e);
