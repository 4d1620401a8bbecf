/* SPDX-License-Identifier: Apache-2.0 */
/* A zygote with frozen memory like husk's whose every run is a bare fork: peer_forkonly.py. */
#pragma once

#include "bench.h"
#include "child.h"

/* megabytes: memory that it has written beside what is frozen, or NULL. */
int bare_fork_open(struct child *ret, const struct world *w, const char *megabytes, struct err *e);
/* One run of CODE, checked. The signature is that of a contender; user is the child. */
int bare_fork_once(void *user, double *ret, struct err *e);
