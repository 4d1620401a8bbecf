/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The .env file of a project: lines NAME=value that become environment variables.
 *
 *     # a comment
 *     export NAME=value          # export is allowed and means nothing
 *     NAME='as it is, also over several lines'
 *     NAME="with \n \t \r \" \\ \$"
 *
 * Strict: a line of any other form is an error with its number, and then nothing is set. Values
 * are taken as they are: no variable in them is replaced and nothing is run.
 */
#pragma once

#include <stddef.h>

#include "base/err.h"

/*
 * Whom to tell of each variable, in order; other than 0 ends the parsing with -1, and *e is then
 * theirs.
 */
struct dotenv_listener {
    int (*on_variable)(const char *name, const char *value, void *user, struct err *e);
    void *user;
};

/* text ends with NUL at text[n]; origin is what messages call it. */
int dotenv_parse(const char *text, size_t n, const char *origin,
                 const struct dotenv_listener *listener, struct err *e);

/*
 * Sets what is not set yet: the caller's own environment wins. A file that is not there is an empty
 * one.
 */
int dotenv_load(const char *path, struct err *e);
