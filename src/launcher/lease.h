/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases on host id ranges, so that two launchers on one host never give the same ids to two boxes.
 *
 * One byte of a lock file stands for one ward of ids (box/idmap.h). The lock ends with its holder,
 * however that dies.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"

struct lease {
    int fd; /* holds the lock; -1: no lease */
    uint32_t first;
    uint32_t wards;
};

/* A run of wards that nobody else has. ERR_LIMIT when there is none. */
int lease_take(uint32_t wards, struct lease *ret, struct err *e);
void lease_drop(struct lease *lease);
