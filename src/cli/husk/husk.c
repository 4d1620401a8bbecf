/* SPDX-License-Identifier: Apache-2.0 */
/* husk: the table of its commands. commands.c finds the right one. */
#include "cli/common/commands.h"

static const struct command commands[] = {
    {"run", "run code or a script in a fresh sandbox", &run_table, cmd_run, false},
    {"up", "start the server", &up_table, cmd_up, false},
    {"down", "stop the server", &down_table, cmd_down, false},
    {"init", "create a project of agents", &init_table, cmd_init, false},
    {"create-agent", "add an agent to a project", &create_agent_table, cmd_create_agent, false},
    {"create-mcp", "add an MCP server to a project", &create_mcp_table, cmd_create_mcp, false},
    {"agents", "serve the agents of a project", &agents_table, cmd_agents, false},
    {"analytics", "count commands in a local file, or not", &analytics_table, cmd_analytics, true},
    {"limited", "run a trusted program with limits", &limited_table, cmd_limited, true},
    {"doctor", "show what this machine can isolate", &doctor_table, cmd_doctor, false},
    {"template", "list, show and add templates", &template_table, cmd_template, false},
    {"config", "show and check the settings of the server", &config_table, cmd_config, false},
    {"version", "show the version", &version_table, cmd_version, false},
};

static const struct program program = {
    .about = "Runs untrusted code in a fresh, isolated sandbox, and serves agents.",
    .commands = commands,
    .n_commands = ARRAY_LEN(commands),
    .examples = "husk run 'print(6 * 7)'\n"
                "husk run --memory 256M --timeout 10 script.py first second\n"
                "husk run --lang shell 'ls -la'\n"
                "husk up\n"
                "husk init demo && cd demo && husk create-agent hello && husk agents up\n"
                "husk doctor\n",
};

int main(int argc, char **argv)
{
    return program_run(&program, argc, argv);
}
