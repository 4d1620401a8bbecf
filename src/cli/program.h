/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What programs made of commands share: finding the command, the overview, help, one line for each
 * mistake. husk.c and rayai.c each have a table of commands. Knows nothing of what the commands
 * do.
 */
#pragma once

#include "cli/commands.h"

struct program {
    const char *about; /* one sentence */
    const struct command *commands;
    size_t n_commands;
    const char *examples; /* lines */
};

/* Runs the command that argv names; the exit code. */
int program_run(const struct program *program, int argc, char **argv);
