/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rayai: the commands of husk for agents, under the names of the rayai CLI. Commands of its hosted
 * platform report that there is none.
 */
#include "cli/common/commands.h"
#include "cli/common/term.h"

#define EXIT_FAILED 1

static int cmd_rayai_up(int argc, char **argv)
{
    return agents_up("up", false, argc, argv);
}

static int cmd_mcp(int argc, char **argv)
{
    return agents_verb("mcp", "mcp up", true, argc, argv);
}

static int cmd_hosted(int argc, char **argv)
{
    (void)argc;
    term_say(PROGRAM, "%s: husk has no hosted platform; 'rayai up' serves on this machine",
             argv[0]);
    return EXIT_FAILED;
}

static const struct option_table hosted_table = {
    .usage = "rayai login|logout|deploy|status|logs|delete",
    .about =
        "Not available: husk has no hosted platform. 'rayai up' serves agents on this machine.",
};

static const struct command commands[] = {
    {"init", "create a project of agents", &init_table, cmd_init, false},
    {"create-agent", "add an agent to a project", &create_agent_table, cmd_create_agent, false},
    {"create-mcp", "add an MCP server to a project", &create_mcp_table, cmd_create_mcp, false},
    {"up", "serve the agents and MCP servers of a project", &agents_table, cmd_rayai_up, false},
    {"mcp", "mcp up: serve the MCP servers only", &agents_table, cmd_mcp, false},
    {"analytics", "count commands in a local file, or not", &analytics_table, cmd_analytics, true},
    {"version", "show the version", &version_table, cmd_version, false},
    {"login", "not available: husk has no hosted platform", &hosted_table, cmd_hosted, true},
    {"logout", "not available", &hosted_table, cmd_hosted, true},
    {"deploy", "not available", &hosted_table, cmd_hosted, true},
    {"status", "not available", &hosted_table, cmd_hosted, true},
    {"logs", "not available", &hosted_table, cmd_hosted, true},
    {"delete", "not available", &hosted_table, cmd_hosted, true},
};

static const struct program program = {
    .about = "Serves agents and MCP servers, with tools and sandboxes of husk.",
    .commands = commands,
    .n_commands = ARRAY_LEN(commands),
    .examples = "rayai init demo && cd demo\n"
                "rayai create-agent hello\n"
                "rayai up\n",
};

int main(int argc, char **argv)
{
    int code = program_run(&program, argc, argv);

    return code == EXIT_HUSK ? EXIT_FAILED : code;
}
