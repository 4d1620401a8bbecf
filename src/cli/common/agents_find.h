/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the agents of a project: runs the SDK's discovery with the project's interpreter and prints
 * the result. Knows nothing of Python itself; config/agents_plan.h checks the output of discovery.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "cli/common/python.h"
#include "config/agents_plan.h"

struct agents_query {
    const struct python *python;
    const char *folder;  /* absolute path of the project */
    const char *agents;  /* names, separated by commas; NULL: all */
    const char *servers; /* the same for MCP servers */
    /* A script that calls serve() itself, absolute; NULL: search the project. */
    const char *file;
    bool only_servers;
};

/* Fills *ret, which must be zeroed. Prints files that cannot be imported with their traceback. */
int agents_find(const struct agents_query *q, struct agents_plan *ret, struct err *e);

/* Prints a line per agent: name, framework, URL. */
void agents_show(const struct agents_plan *plan, const char *base);

/* Prints a curl command per agent. base: "http://host:port" */
void agents_show_calls(const struct agents_plan *plan, const char *base, const char *socket);
