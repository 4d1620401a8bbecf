/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running the server from a command: what `husk up` and `husk agents up` share. Settings are
 * loaded, the supervisor runs in this process or detached from the terminal, and the user is told
 * when it serves.
 */
#pragma once

#include "cli/common/config_options.h"
#include "supervisor/place.h"
#include "supervisor/supervisor.h"

struct serving {
    struct config *config;
    const struct config_options *settings;  /* where it comes from */
    int plan;                               /* of agents, sealed; -1: none */
    void (*greet)(const struct serving *s); /* it serves: what to try first */
    const void *user;
};

/* Fills *c, which must be zeroed. What is wrong is said on stderr. */
int serving_load(const struct config_options *settings, struct config *c);

/* Until it is ended, or detached until it serves. The exit code. */
int serving_run(const struct serving *s, bool detach);
