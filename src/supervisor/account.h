/* SPDX-License-Identifier: Apache-2.0 */
/* As whom huskd runs. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "config/config.h"

struct account {
    uid_t uid;
    gid_t gid;
    bool switch_to; /* another one than ours */
};

int account_find(const struct config *c, struct account *ret, struct err *e);
