/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A helper program that waits for words and answers each: the Python peers. One packet in, one
 * packet out over its descriptor 3; its stdout is a pipe to us.
 */
#pragma once

#include <sys/types.h>

#include "base/err.h"

struct child {
    pid_t pid;
    int socket;
    int out; /* its stdout, does not block */
};

/* Starts python with these arguments (NULL-terminated) and waits for its first word, "ready". */
int child_open(struct child *ret, const char *const *args, struct err *e);
int child_open_with(struct child *ret, const char *python, const char *const *args, struct err *e);
void child_close(struct child *c); /* ends it; fine if it was never opened */

/* Says a word and waits for the answer "ok". */
int child_ask(const struct child *c, const char *word, struct err *e);

/* Says a word and waits for the answer "ok" and a number: something that it has measured itself. */
int child_measure(const struct child *c, const char *word, double *ret, struct err *e);
