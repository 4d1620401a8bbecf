/* SPDX-License-Identifier: Apache-2.0 */
/* husk init: a new project of agents. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/str.h"
#include "cli/common/commands.h"
#include "cli/common/scaffold.h"
#include "cli/common/term.h"

#define NAME_LENGTH_MAX 100

struct init_options {
    char *type;
};

#define FIELD(name) offsetof(struct init_options, name)

static const struct option_row rows[] = {
    {OPTION_GROUP, 0, "Options", NULL, 0, 0, NULL},
    {OPTION_TEXT, 0, "type", "TYPE", FIELD(type), 0, "kind of project: agent (default)"},
    {OPTION_HELP, 'h', "help", NULL, 0, 0, "show the help text"},
};

const struct option_table init_table = {
    .usage = PROGRAM " init PROJECT [--type agent]",
    .about = "Creates a directory with the files of a new project of agents. The last part of its "
             "path is the project's name.",
    .rows = rows,
    .n_rows = ARRAY_LEN(rows),
    .examples = PROGRAM " init demo && cd demo && " PROGRAM " create-agent hello && " PROGRAM
                        " " UP_COMMAND,
    .anywhere = true,
};

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

/* A valid name of a Python project: letters and digits, with . _ - between them. */
static bool is_project_name(const char *name)
{
    size_t n = strlen(name);

    return n > 0 && n <= NAME_LENGTH_MAX && name[strspn(name, LETTERS "._-")] == '\0' &&
           strchr(LETTERS, name[0]) != NULL && strchr(LETTERS, name[n - 1]) != NULL;
}

static int make(const char *folder, struct err *e)
{
    const char *slash = strrchr(folder, '/');
    const char *name = slash != NULL ? slash + 1 : folder;

    if (!is_project_name(name)) {
        return err_set(
            e, ERR_INVALID,
            "'%s' cannot be a project's name: use letters and digits, with . _ - between them",
            name);
    }
    if (mkdir(folder, 0777) < 0) {
        return errno == EEXIST ? err_set(e, ERR_EXISTS, "%s exists already", folder)
                               : err_sys(e, errno, "cannot create %s", folder);
    }
    struct scaffold s = {.kind = "project", .name = name, .class_name = ""};
    return scaffold_copy(&s, folder, e);
}

int cmd_init(int argc, char **argv)
{
    struct init_options o = {0};
    struct option_rest rest;
    struct err e = {0};

    int code = command_parse("init", &init_table, argc, argv, &o, &rest);
    if (code != COMMAND_GOES_ON) {
        return code;
    }
    if (rest.n != 1) {
        err_set(&e, ERR_INVALID, "init needs one name, that of the new project");
        return usage_error("init", &e);
    }
    if (o.type != NULL && !str_eq(o.type, "agent")) {
        err_set(&e, ERR_INVALID, "--type '%s' is not known: the only type is agent", o.type);
        return usage_error("init", &e);
    }
    if (make(rest.args[0], &e) < 0) {
        term_say(PROGRAM, "%s", e.msg);
        return EXIT_HUSK;
    }
    printf("\nThe project is created. Next:\n\n"
           "  cd %s\n"
           "  " PROGRAM " create-agent hello\n"
           "  " PROGRAM " " UP_COMMAND "\n",
           rest.args[0]);
    return 0;
}
