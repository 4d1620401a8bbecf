/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Python interpreter of a project: finds it, checks what it can import, and runs modules of the
 * SDK with it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

#define PYTHON_MODULES_MAX 8

struct python {
    char path[4096]; /* absolute; links are not resolved: that would leave a virtual environment */
    char sdk[8192];  /* put first in PYTHONPATH so that husk is found; "": not needed */
};

/* given (--python), else $VIRTUAL_ENV/bin/python, FOLDER/.venv/bin/python, python3 in PATH. */
int python_find(const char *given, const char *folder, struct python *ret, struct err *e);

/*
 * Sets bit i of *ret_missing if the interpreter cannot import names[i]. Refuses an interpreter that
 * is too old.
 */
int python_missing(const struct python *p, const char *const *names, size_t n,
                   uint32_t *ret_missing, struct err *e);

/*
 * Fills p->sdk: empty if the interpreter has the package husk, else the SDK installed with this
 * program.
 */
int python_find_sdk(struct python *p, struct err *e);

/*
 * Starts the interpreter in a folder with these arguments (argv[0] is filled in here) and
 * PYTHONPATH for the SDK. out becomes its descriptor 3; its standard output goes to our standard
 * error. It ends when we end.
 */
int python_start(const struct python *p, char **argv, const char *folder, int out, pid_t *ret,
                 struct err *e);

/* Becomes the interpreter, in a folder. Returns -1, on failure only. */
int python_become(const struct python *p, char **argv, const char *folder, struct err *e);
