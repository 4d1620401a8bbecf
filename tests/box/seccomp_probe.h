/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Issuing system calls under a filter, for test_seccomp.c.
 *
 * A filter's decision shows in a call's errno only when it is refused. So a marked copy of the
 * program is made in which every return value, "allow" included, is an errno that the kernel itself
 * never uses. Instructions and jumps are the same, nothing is executed, and each decision can be
 * read off. All of these fail the test when something else goes wrong.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "box/seccomp.h"

#define CALLS_MAX 600 /* in one go */

/* What a case expects, if not the errno of a refusal. */
#define WANT_ALLOW 0
#define WANT_KILL (-1)

#define MARK_ERRNO 3000 /* plus the errno */
#define MARK_ALLOW 4000
#define MARK_KILL 4001

struct call {
    long nr;
    unsigned long args[3];
};

/* Recent kernels (seen on 6.18) do not filter the calls of their own probes; it may be SIGILL. */
bool is_exempt(long nr);

/* The mark of a WANT_* or an errno. */
int mark_of(int want);

/* Writes the mark of each decision to marks[n]. No call is executed. */
void run_marked(const struct seccomp_program *p, const struct call *calls, size_t n, int *marks);

/* Issues the calls for real; 0 in errnos[n] is success. Only for calls known to be refused. */
void run_refused(const struct seccomp_program *p, const struct call *calls, size_t n, int *errnos);

/* Runs fn in a process of its own under the profile of that name. Returns the wait status. */
int run_under(const char *name, void (*fn)(void));
