/* SPDX-License-Identifier: Apache-2.0 */
/* The account that huskd runs as. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "config/config.h"

struct account {
    uid_t uid;
    gid_t gid;
    bool switch_to; /* differs from our own account */
};

int account_find(const struct config *c, struct account *ret, struct err *e);
