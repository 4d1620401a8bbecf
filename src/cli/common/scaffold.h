/* SPDX-License-Identifier: Apache-2.0 */
/*
 * New files from the folders of scaffold/, which are installed as lib/husk/scaffold.
 *
 * Each file there ends in ".in", which the copy loses, and holds {{name}}, {{class_name}},
 * {{package}}, {{program}} and {{up}}, which are replaced, in names of files and folders too.
 * Nothing that exists is ever overwritten.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

struct scaffold {
    const char *kind; /* "project", "agent-python", ...: a folder of scaffold/ */
    const char *name;
    const char *class_name;
};

/* Copies into a folder that exists, and prints the name of each new file. */
int scaffold_copy(const struct scaffold *s, const char *into, struct err *e);

/* A Python identifier of ASCII letters that is no keyword, at most 63 bytes. */
bool scaffold_is_identifier(const char *name);
bool scaffold_is_keyword(const char *name); /* of Python */

#define SCAFFOLD_CLASS_MAX 80 /* end included */

/* "my_agent" -> "MyAgent"; name is an identifier. */
void scaffold_class_name(const char *name, char ret[SCAFFOLD_CLASS_MAX]);
