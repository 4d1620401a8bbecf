/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases on host id ranges, so that two launchers on one kernel never give the same ids to two
 * boxes.
 *
 * A lease is a run of wards of ids (box/idmap.h). Two marks say that it is taken:
 *
 *   - One byte of a lock file stands for one ward. Launchers that share /run see it.
 *   - The kernel counts for each user how many descriptors are in flight in unix sockets. A taken
 *     ward has some on its first id. The count belongs to the id itself: it is one for all
 *     namespaces, so launchers in different containers on one kernel see each other's marks.
 *
 * Both marks belong to one open descriptor, and end when its last copy is closed. The launcher and
 * its guard hold it (guard.c): the ids of a killed launcher stay taken until its zygotes and their
 * boxes are gone.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"

/* Per launcher, so that one client cannot use up the ids of the other launchers. */
#ifndef LEASE_WARDS_MOST /* a test builds a launcher with fewer */
#    define LEASE_WARDS_MOST 336
#endif

struct lease {
    int fd; /* holds the marks; -1: no lease */
    uint32_t first;
    uint32_t wards;
};

/*
 * A random run of wards that no other launcher has. ERR_LIMIT when there is none. The caller is
 * root and has SECBIT_NO_SETUID_FIXUP set.
 */
int lease_take(uint32_t wards, struct lease *ret, struct err *e);
void lease_drop(struct lease *lease);
