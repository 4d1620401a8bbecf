/* SPDX-License-Identifier: Apache-2.0 */
/* husk: finds the command and hands over. Knows nothing of what the commands do. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "base/suggest.h"
#include "cli/commands.h"
#include "cli/term.h"

static const struct command commands[] = {
    {"run", "run code or a script in a fresh sandbox", &run_table, cmd_run},
    {"up", "start the server", &up_table, cmd_up},
    {"down", "end the server", &down_table, cmd_down},
    {"doctor", "show what this machine can isolate", &doctor_table, cmd_doctor},
    {"template", "list, show and add templates", &template_table, cmd_template},
    {"config", "show and check the settings of the server", &config_table, cmd_config},
    {"version", "show the version", &version_table, cmd_version},
};

static void print_overview(FILE *to)
{
    fputs("Usage: husk COMMAND [options]\n\n"
          "Runs code that nobody trusts in a fresh, isolated sandbox.\n\n"
          "Commands:\n",
          to);
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].about);
    }
    fputs("  help       show the options of a command: husk help run\n\n"
          "Examples:\n"
          "  husk run 'print(6 * 7)'\n"
          "  husk run --memory 256M --timeout 10 script.py first second\n"
          "  husk run --lang shell 'ls -la'\n"
          "  husk up\n"
          "  husk doctor\n",
          to);
}

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        if (str_eq(commands[i].name, name)) {
            return &commands[i];
        }
    }
    return NULL;
}

static int unknown_command(const char *word)
{
    const char *names[ARRAY_LEN(commands) + 1];

    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        names[i] = commands[i].name;
    }
    names[ARRAY_LEN(commands)] = "help";

    const char *near = suggest(word, names, ARRAY_LEN(names));
    if (near != NULL) {
        term_say(PROGRAM, "unknown command '%s'; did you mean '%s'?", word, near);
    } else {
        term_say(PROGRAM, "unknown command '%s'; 'husk --help' lists the commands", word);
    }
    return EXIT_HUSK;
}

static int help(int argc, char **argv)
{
    if (argc < 2) {
        print_overview(stdout);
        return 0;
    }
    if (str_eq(argv[1], "help")) {
        puts("Usage: husk help [COMMAND]\n\nShows all commands, or the options of one.");
        return 0;
    }
    const struct command *c = find_command(argv[1]);
    if (c == NULL) {
        return unknown_command(argv[1]);
    }
    options_print_help(c->options, stdout);
    return 0;
}

int usage_error(const char *command, const struct err *e)
{
    if (e->code == ERR_INVALID) {
        term_say(PROGRAM, "%s ('husk %s --help' lists the options)", e->msg, command);
    } else {
        term_say(PROGRAM, "%s", e->msg); /* the options are right; something else is not */
    }
    return EXIT_HUSK;
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

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        term_say(PROGRAM, "no command given; 'husk --help' lists the commands");
        return EXIT_HUSK;
    }

    const char *word = argv[1];
    if (str_eq(word, "--help") || str_eq(word, "-h")) {
        print_overview(stdout);
        return 0;
    }
    if (str_eq(word, "--version") || str_eq(word, "-V")) {
        return cmd_version(1, argv);
    }
    if (str_eq(word, "help")) {
        return help(argc - 1, argv + 1);
    }
    if (word[0] == '-') {
        term_say(PROGRAM, "unknown option %s; options follow the command: husk run %s ...", word,
                 word);
        return EXIT_HUSK;
    }
    const struct command *c = find_command(word);
    return c != NULL ? c->run(argc - 1, argv + 1) : unknown_command(word);
}

int main(int argc, char **argv)
{
    if (term_guard_stdio() < 0) {
        return EXIT_HUSK; /* without /dev/null there may be nobody to tell */
    }
    int code = dispatch(argc, argv);

    /* What printf() could not deliver must not look like success. */
    if (fflush(stdout) != 0 && code == 0) {
        term_say(PROGRAM, "cannot write output");
        return EXIT_HUSK;
    }
    return code;
}
