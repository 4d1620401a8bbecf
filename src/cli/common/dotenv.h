/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The .env file of a project: lines NAME=value that become environment variables.
 *
 *     # a comment
 *     export NAME=value          # export is allowed and ignored
 *     NAME='taken literally, also over several lines'
 *     NAME="with \n \t \r \" \\ \$"
 *
 * Strict: any other line is an error with its number, and then nothing is set. Variables and
 * commands in values are not expanded.
 */
#pragma once

#include <stddef.h>

#include "base/err.h"

/*
 * Called for each variable in order; a result other than 0 ends the parsing with -1, and *e is set
 * by this function.
 */
struct dotenv_listener {
    int (*on_variable)(const char *name, const char *value, void *user, struct err *e);
    void *user;
};

/* text ends with NUL at text[n]; origin names it in messages. */
int dotenv_parse(const char *text, size_t n, const char *origin,
                 const struct dotenv_listener *listener, struct err *e);

/* Sets variables that are not set yet: the environment wins. A missing file counts as empty. */
int dotenv_load(const char *path, struct err *e);
