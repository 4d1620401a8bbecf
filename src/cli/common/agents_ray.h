/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serves a project on Ray Serve instead of huskd: HUSK_ENGINE=ray. The SDK does it, in this
 * process.
 */
#pragma once

#include <stdbool.h>

#include "cli/common/agents_find.h"
#include "cli/common/config_options.h"

bool agents_ray_is_asked(void);

/* Refuses settings of huskd, which Ray Serve does not have. */
int agents_ray_check(const struct config_options *settings, bool detach, struct err *e);

/* Becomes the SDK's server for Ray. Returns only on failure, -1. */
int agents_ray_serve(const struct agents_query *q, const char *host, const char *port,
                     struct err *e);
