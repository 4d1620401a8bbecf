/* SPDX-License-Identifier: Apache-2.0 */
/* Finds and runs the command; see commands.h. */
#include "cli/common/commands.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "base/suggest.h"
#include "cli/common/analytics.h"
#include "cli/common/term.h"

#define COMMANDS_MAX 40

static void print_overview(const struct program *program, FILE *to)
{
    fprintf(to, "Usage: %s COMMAND [options]\n\n%s\n\nCommands:\n", PROGRAM, program->about);
    for (size_t i = 0; i < program->n_commands; i++) {
        fprintf(to, "  %-13s %s\n", program->commands[i].name, program->commands[i].about);
    }
    fprintf(to, "  %-13s show the options of a command: %s help %s\n\nExamples:\n", "help", PROGRAM,
            program->commands[0].name);
    options_print_lines(to, "  ", "  ", program->examples);
}

static const struct command *find_command(const struct program *program, const char *name)
{
    for (size_t i = 0; i < program->n_commands; i++) {
        if (str_eq(program->commands[i].name, name)) {
            return &program->commands[i];
        }
    }
    return NULL;
}

static int unknown_command(const struct program *program, const char *word)
{
    const char *names[COMMANDS_MAX + 1];
    size_t n = 0;

    for (; n < program->n_commands && n < COMMANDS_MAX; n++) {
        names[n] = program->commands[n].name;
    }
    names[n++] = "help";

    const char *near = suggest(word, names, n);
    if (near != NULL) {
        term_say(PROGRAM, "unknown command '%s'; did you mean '%s'?", word, near);
    } else {
        term_say(PROGRAM, "unknown command '%s'; '%s --help' lists the commands", word, PROGRAM);
    }
    return EXIT_HUSK;
}

static int help(const struct program *program, int argc, char **argv)
{
    if (argc < 2) {
        print_overview(program, stdout);
        return 0;
    }
    if (str_eq(argv[1], "help")) {
        printf("Usage: %s help [COMMAND]\n\nShows all commands, or the options of one.\n", PROGRAM);
        return 0;
    }
    const struct command *c = find_command(program, argv[1]);
    if (c == NULL) {
        return unknown_command(program, argv[1]);
    }
    options_print_help(c->options, stdout);
    return 0;
}

int usage_error(const char *command, const struct err *e)
{
    if (e->code == ERR_INVALID) {
        term_say(PROGRAM, "%s ('%s %s --help' lists the options)", e->msg, PROGRAM, command);
    } else {
        term_say(PROGRAM, "%s", e->msg); /* the options are valid, so no hint about them */
    }
    return EXIT_HUSK;
}

int command_parse(const char *command, const struct option_table *table, int argc, char **argv,
                  void *options, struct option_rest *rest)
{
    struct option_rest plain = {0};
    struct err e;

    int r = options_parse(table, argc, argv, options, &plain, &e);
    if (r > 0) {
        options_print_help(table, stdout);
        return 0;
    }
    if (r == 0 && rest == NULL && plain.n > 0) {
        r = err_set(&e, ERR_INVALID, "%s takes no argument '%s'", command, plain.args[0]);
    }
    if (r < 0) {
        return usage_error(command, &e);
    }
    if (rest != NULL) {
        *rest = plain;
    }
    return COMMAND_GOES_ON;
}

int engine_error(const struct husk_error *e)
{
    term_say(PROGRAM, "%s", e->message);
    return EXIT_HUSK;
}

int print_json(json_t *value)
{
    int r = value == NULL ? -1 : json_dumpf(value, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII);

    json_decref(value);
    if (r < 0) {
        term_say(PROGRAM, "cannot write JSON: out of memory or output closed");
        return EXIT_HUSK;
    }
    putchar('\n');
    return 0;
}

static int dispatch(const struct program *program, int argc, char **argv)
{
    if (argc < 2) {
        term_say(PROGRAM, "no command given; '%s --help' lists the commands", PROGRAM);
        return EXIT_HUSK;
    }

    const char *word = argv[1];
    if (str_eq(word, "--help") || str_eq(word, "-h")) {
        print_overview(program, stdout);
        return 0;
    }
    if (str_eq(word, "--version") || str_eq(word, "-V")) {
        return cmd_version(1, argv);
    }
    if (str_eq(word, "help")) {
        return help(program, argc - 1, argv + 1);
    }
    if (word[0] == '-') {
        term_say(PROGRAM, "unknown option %s; options follow the command: %s %s %s ...", word,
                 PROGRAM, program->commands[0].name, word);
        return EXIT_HUSK;
    }
    const struct command *c = find_command(program, word);
    if (c == NULL) {
        return unknown_command(program, word);
    }
    if (!c->uncounted) {
        analytics_count(c->name, NULL);
    }
    return c->run(argc - 1, argv + 1);
}

int program_run(const struct program *program, int argc, char **argv)
{
    /* If the caller ignores it, waitpid() fails here and in programs that we start. */
    sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    if (term_guard_stdio() < 0) {
        return EXIT_HUSK; /* stderr may be closed */
    }
    int code = dispatch(program, argc, argv);

    /* A failed write of printf() must not look like success. */
    if (fflush(stdout) != 0 && code == 0) {
        term_say(PROGRAM, "cannot write output");
        return EXIT_HUSK;
    }
    return code;
}
