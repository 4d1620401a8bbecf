/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the supervisor: as whom and with which arguments the daemon is started. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "config/config.h"

#define DAEMON_ARGS_MAX (2 * CONFIG_KEYS + 4)

struct account {
    uid_t uid;
    gid_t gid;
    bool switch_to; /* another one than ours */
};

int account_find(const struct config *c, struct account *ret, struct err *e);

/*
 * What of our environment launcher and daemon get: settings and places. Keys of the person who started us are none of their
 * business. Borrowed strings in an owned list; NULL when memory is gone.
 */
char **daemon_environment(void);

/* Fills argv from its second item on; the strings live in *text. */
int daemon_args(const struct config *c, struct buf *text, char *argv[DAEMON_ARGS_MAX],
                struct err *e);
