/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the supervisor: the listening sockets, which daemons inherit one after the other. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"
#include "config/config.h"
#include "wire/supervisor_msg.h"

struct listeners {
    int fds[SUPERVISOR_LISTENERS_MAX];
    size_t n;
};

/*
 * Binds all addresses of the configuration; retries for patience_ms. The unix socket gets owner and
 * group.
 */
int listeners_open(const struct config *c, uid_t owner, gid_t group, unsigned patience_ms,
                   struct listeners *ret, struct err *e);
void listeners_close(struct listeners *l, const struct config *c); /* removes the unix socket */
