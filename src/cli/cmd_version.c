/* SPDX-License-Identifier: Apache-2.0 */
/* husk version */
#include "cli/commands.h"

#include <stddef.h>

struct version_options {
    int json;
    int help;
};

static const struct option_row rows[] = {
    {OPTION_GROUP, 0, "Options", NULL, 0, 0, NULL},
    {OPTION_FLAG, 0, "json", NULL, offsetof(struct version_options, json), 1, "as a JSON object"},
    {OPTION_HELP, 'h', "help", NULL, offsetof(struct version_options, help), 1, "show this text"},
};

const struct option_table version_table = {
    .usage = PROGRAM " version [--json]\n" PROGRAM " --version",
    .about = "Shows the version.",
    .rows = rows,
    .n_rows = ARRAY_LEN(rows),
    .anywhere = true,
};

int cmd_version(int argc, char **argv)
{
    struct version_options o = {0};
    struct option_rest rest;
    struct err e;

    if (options_parse(&version_table, argc, argv, &o, &rest, &e) < 0) {
        return usage_error("version", &e);
    }
    if (o.help) {
        options_print_help(&version_table, stdout);
        return 0;
    }
    if (rest.n > 0) {
        err_set(&e, ERR_INVALID, "version takes no argument '%s'", rest.args[0]);
        return usage_error("version", &e);
    }
    if (o.json) {
        return print_json(json_pack("{s:s}", "version", husk_version()));
    }
    printf(PROGRAM " %s\n", husk_version());
    return 0;
}
