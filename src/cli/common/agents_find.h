/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding the agents of a project: runs the SDK's discovery with the project's interpreter and
 * shows what came of it. Knows nothing of Python itself; what discovery answers is checked by
 * config/agents_plan.h.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "cli/common/python.h"
#include "config/agents_plan.h"

struct agents_query {
    const struct python *python;
    const char *folder;  /* absolute path of the project */
    const char *agents;  /* names between commas; NULL: all */
    const char *servers; /* likewise, of MCP servers */
    /* a script that calls serve() itself, absolute; NULL: the project's folders */
    const char *file;
    bool only_servers;
};

/*
 * Fills *ret, which must be zeroed, ready to be written. Files that cannot be imported are shown
 * with their traceback.
 */
int agents_find(const struct agents_query *q, struct agents_plan *ret, struct err *e);

/* One line each: name, framework, URL. */
void agents_show(const struct agents_plan *plan, const char *base);

/* A curl command for each. base: "http://host:port" */
void agents_show_calls(const struct agents_plan *plan, const char *base, const char *socket);
