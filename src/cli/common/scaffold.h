/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates files from the folders of scaffold/, which are installed as lib/husk/scaffold.
 *
 * Each file ends in ".in", which the copy drops. {{name}}, {{class_name}}, {{package}}, {{program}}
 * and {{up}} are replaced, also in names of files and folders. Existing files are never
 * overwritten.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

struct scaffold {
    const char *kind; /* "project", "agent-python", ...: a folder of scaffold/ */
    const char *name;
    const char *class_name;
};

/* Copies into an existing folder, and prints the name of each new file. */
int scaffold_copy(const struct scaffold *s, const char *into, struct err *e);

/* True for a Python identifier of ASCII characters that is no keyword, at most 63 bytes. */
bool scaffold_is_identifier(const char *name);
bool scaffold_is_keyword(const char *name); /* of Python */

#define SCAFFOLD_CLASS_MAX 80 /* end included */

/* "my_agent" -> "MyAgent"; name is an identifier. */
void scaffold_class_name(const char *name, char ret[SCAFFOLD_CLASS_MAX]);
