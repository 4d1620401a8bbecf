/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Python interpreter of a project: which one it is, what it can import, and running a module
 * of the SDK with it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

#define PYTHON_MODULES_MAX 8

struct python {
    char path[4096]; /* absolute; symbolic links are kept, a virtual environment is one */
    char sdk[8192];  /* what to put first in PYTHONPATH so that husk is found; "": nothing */
};

/* given (--python), else $VIRTUAL_ENV/bin/python, FOLDER/.venv/bin/python, python3 of PATH. */
int python_find(const char *given, const char *folder, struct python *ret, struct err *e);

/*
 * Which of the modules it cannot import: bit i of *ret_missing for names[i]. Refuses one that is
 * too old.
 */
int python_missing(const struct python *p, const char *const *names, size_t n,
                   uint32_t *ret_missing, struct err *e);

/*
 * Fills p->sdk: empty if the interpreter has husk by itself, else the SDK that came with this
 * program.
 */
int python_find_sdk(struct python *p, struct err *e);

/*
 * Starts it in a folder with these arguments (argv[0] is filled in here) and PYTHONPATH for the
 * SDK. out becomes descriptor 3; its standard output goes to our standard error. It dies with us.
 */
int python_start(const struct python *p, char **argv, const char *folder, int out, pid_t *ret,
                 struct err *e);
