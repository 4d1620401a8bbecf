/* SPDX-License-Identifier: Apache-2.0 */
/* husk version */
#include "cli/common/commands.h"

#include <stddef.h>

#include "commit.h" /* generated from commit.h.in */

struct version_options {
    int json;
};

static const struct option_row rows[] = {
    {OPTION_GROUP, 0, "Options", NULL, 0, 0, NULL},
    {OPTION_FLAG, 0, "json", NULL, offsetof(struct version_options, json), 1,
     "print a JSON object"},
    {OPTION_HELP, 'h', "help", NULL, 0, 0, "show the help text"},
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

    int code = command_parse("version", &version_table, argc, argv, &o, NULL);
    if (code != COMMAND_GOES_ON) {
        return code;
    }
    if (o.json) {
        return print_json(
            json_pack("{s:s, s:s}", "version", husk_version(), "commit", HUSK_COMMIT));
    }
    printf(PROGRAM " %s\n", husk_version());
    return 0;
}
