/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which capabilities the launcher and the processes that it forks keep after start-up, and why.
 *
 * Each kind of process has a role in the table; a kind that is forked before the launcher drops its
 * own rights may keep other ones. Zygotes need no role: a process in a new user namespace has all
 * capabilities there and none outside.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum caps_role {
    CAPS_LAUNCHER = 1 << 0, /* as root */
    CAPS_ROOTLESS = 1 << 1, /* the launcher as root of its own user namespace */
    CAPS_GUARD = 1 << 2,    /* husk-guard, as root; without root it keeps none */
    CAPS_LENT = 1 << 3,     /* either, as root in a cgroup that was delegated to another user */
};

struct caps_row {
    int cap;        /* CAP_* */
    unsigned roles; /* enum caps_role: the kinds that keep it */
    const char *name;
    const char *reason; /* the calls that need it */
};

extern const struct caps_row caps_rows[];
extern const size_t caps_rows_n;

/* The capabilities of a role, as bits; 0 for none of them. */
uint64_t caps_of(unsigned role);

/*
 * Drops everything else for good: permitted, effective, inheritable, ambient and bounding set. No
 * later exec or change of ids restores any of it. Adds no capability. Role 0 keeps none.
 */
int caps_drop(unsigned role, struct err *e);
