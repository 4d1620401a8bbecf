/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings of huskd as command-line options, for every command that takes them.
 *
 *     struct up_options { struct config_options settings; int detach; };
 *     static const struct option_row rows[] = {
 *         {OPTION_FLAG, 0, "detach", ...},
 *     #define CONFIG_OPTIONS_AT offsetof(struct up_options, settings)
 *     #include "cli/common/config_options.def"
 *     };
 *
 * After options_parse(), config_options_load() builds the configuration from them.
 */
#pragma once

#include "cli/common/options.h"
#include "config/config.h"

struct config_options {
    char *file; /* borrowed from argv */
    bool again; /* this and only_data: see struct config_input */
    bool only_data;
    struct option_list values[CONFIG_KEYS];
};

/* Fills *c, which must be zeroed, from all sources. On -1 *e or the report has the reason. */
int config_options_load(const struct config_options *o, struct config *c,
                        struct config_report *report, struct err *e);
void config_options_release(struct config_options *o);

/* Prints warnings and errors on stderr, each as a line with the program's name. */
void config_options_say(const struct config_report *report);
