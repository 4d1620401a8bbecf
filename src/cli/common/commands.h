/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands of husk and rayai: husk.c and rayai.c each have a table of them, commands.c finds
 * the one that was typed, prints overview and help, and reports mistakes.
 *
 * A command takes its own argv (argv[0] is the command's name) and returns the exit code of the
 * program. Exit codes are documented in docs/exit-codes.md.
 */
#pragma once

#include <husk/husk.h>
#include <jansson.h>

#include "base/err.h"
#include "cli/common/flavour.h"
#include "cli/common/options.h"

enum {
    EXIT_INCOMPLETE = 1, /* doctor: a mandatory layer is missing; config: a setting is wrong */
    EXIT_TIMEOUT = 124,
    EXIT_HUSK = 125, /* husk itself failed, or the command line is wrong */
    EXIT_MEMORY = 137,
    EXIT_BROKEN_PIPE = 141,
};

enum { COMMAND_GOES_ON = -1 }; /* no exit code yet */

struct command {
    const char *name;
    const char *about; /* one line */
    const struct option_table *options;
    int (*run)(int argc, char **argv);
    bool uncounted; /* not counted by analytics */
};

struct program {
    const char *about; /* one sentence */
    const struct command *commands;
    size_t n_commands;
    const char *examples; /* lines */
};

/* Runs the command that argv names; returns the exit code. */
int program_run(const struct program *program, int argc, char **argv);

extern const struct option_table run_table, doctor_table, template_table, config_table,
    version_table, up_table, down_table, init_table, create_agent_table, create_mcp_table,
    agents_table, analytics_table, limited_table;

int cmd_run(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_template(int argc, char **argv);
int cmd_config(int argc, char **argv);
int cmd_version(int argc, char **argv);
int cmd_up(int argc, char **argv);
int cmd_down(int argc, char **argv);
int cmd_init(int argc, char **argv);
int cmd_create_agent(int argc, char **argv);
int cmd_create_mcp(int argc, char **argv);
int cmd_agents(int argc, char **argv);
int cmd_analytics(int argc, char **argv);
int cmd_limited(int argc, char **argv);

/* `husk agents up`, `rayai up`, `rayai mcp up`; command is what the user typed. */
int agents_up(const char *command, bool only_servers, int argc, char **argv);
/* The same for argv[1] "up"; else help or a mistake. up is what the user typed with that word. */
int agents_verb(const char *command, const char *up, bool only_servers, int argc, char **argv);

/*
 * Fills options, which the caller zeroed, and *rest with the plain arguments; NULL: they are an
 * error. Returns COMMAND_GOES_ON, or the exit code after it printed the help text or a line about a
 * mistake.
 */
int command_parse(const char *command, const struct option_table *table, int argc, char **argv,
                  void *options, struct option_rest *rest);

/* Prints a line about a failure, with a hint at --help if an option is wrong; returns EXIT_HUSK. */
int usage_error(const char *command, const struct err *e);

/* Prints a line about a failure of the engine; returns EXIT_HUSK. */
int engine_error(const struct husk_error *e);

/* Prints a JSON value with a newline and drops the reference; returns 0 or EXIT_HUSK. */
int print_json(json_t *value);
