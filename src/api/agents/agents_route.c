/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses of agents that the contract does not list because projects choose them: every agent
 * below its own prefix, MCP servers with every method, and all of them with a slash at the end.
 */
#include <string.h>

#include "api/agents/gateway.h"
#include "base/str.h"

#define AGENTS "/agents/"

/* By prefix, else by name below /agents/. *ret_rest is what follows. */
static struct agent *find(struct agents *agents, const char *path, const char **ret_rest)
{
    struct agent *agent = agents_find_path(agents, path, ret_rest);
    char name[AGENT_NAME_MAX];

    if (agent != NULL || !str_starts(path, AGENTS)) {
        return agent;
    }
    const char *start = path + strlen(AGENTS);
    size_t n = strcspn(start, "/");
    if (str_format(name, sizeof(name), "%.*s", (int)n, start) < 0) {
        return NULL;
    }
    *ret_rest = start + n;
    return agents_find(agents, name);
}

static bool is_at(const char *rest, const char *what)
{
    size_t n = strlen(what);

    return strncmp(rest, what, n) == 0 && (rest[n] == '\0' || str_eq(rest + n, "/"));
}

static enum api_found one_method(enum api_method wanted, const char *method, struct api_match *ret)
{
    bool is_fine =
        wanted == API_GET ? str_eq(method, "GET") || ret->is_head : str_eq(method, "POST");

    if (is_fine) {
        return API_FOUND;
    }
    *ret = (struct api_match){.op = API_OPS, .allow = (uint8_t)(1u << wanted)};
    return API_METHOD_REFUSED;
}

static enum api_found match(struct agents *agents, const char *method, const char *path,
                            struct api_match *ret)
{
    size_t len = strlen(path);
    const char *rest;
    const struct agent *agent = find(agents, path, &rest);

    if (agent == NULL) { /* an unknown one is named by the handler, which knows those that exist */
        bool is_below = str_starts(path, AGENTS) && path[len - 1] == '/';
        return is_below ? api_route_match(method, path, len - 1, ret) : API_NOT_FOUND;
    }
    const struct agent_plan *plan = agent_plan_of(agent);
    *ret = (struct api_match){.n_params = 1,
                              .params = {{.data = plan->name, .len = strlen(plan->name)}},
                              .is_head = str_eq(method, "HEAD")};
    if (is_at(rest, "/health")) {
        ret->op = API_AGENT_HEALTH;
        return one_method(API_GET, method, ret);
    }
    if (plan->kind == AGENT_KIND_MCP) {
        ret->op = API_AGENT_MCP;
        return str_eq(rest, "/mcp") || str_starts(rest, "/mcp/") ? API_FOUND : API_NOT_FOUND;
    }
    if (!is_at(rest, "") && !is_at(rest, "/chat")) {
        return API_NOT_FOUND;
    }
    ret->op = is_at(rest, "") ? API_AGENT_CALL : API_AGENT_CHAT;
    return one_method(API_POST, method, ret);
}

void api_set_agents(struct api *api, struct agents *agents)
{
    api->agents = agents;
    api->more_routes = agents != NULL ? match : NULL;
}
