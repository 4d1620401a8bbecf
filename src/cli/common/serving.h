/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the server for `husk up` and `husk agents up`: loads the settings, runs the supervisor in
 * this process or detached from the terminal, and prints a greeting when the server is ready.
 */
#pragma once

#include "cli/common/config_options.h"
#include "supervisor/place.h"
#include "supervisor/supervisor.h"

/* Help text of --detach. */
#define SERVING_TEXT_DETACH                                                                        \
    "return when the server is ready; it keeps running in the background and logs to husk.log in " \
    "the data directory"

struct serving {
    struct config *config;
    const struct config_options *settings;  /* the source of config, read again on SIGHUP */
    int plan;                               /* of agents, sealed; -1: none */
    void (*greet)(const struct serving *s); /* prints what to try first */
    const void *user;
};

/* Fills *c, which must be zeroed. Prints what is wrong on stderr. */
int serving_load(const struct config_options *settings, struct config *c);

/* Returns the exit code when the server has ended; with detach, when it is ready. */
int serving_run(const struct serving *s, bool detach);
