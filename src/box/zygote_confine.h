/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a zygote loses before its program starts, so that a template's modules are imported inside
 * walls: its mounts are locked, it has the few capabilities that making a box needs, and the early
 * half of its boxes' system-call filter. Its cgroup limits memory, processes and CPU (launcher).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct zygote_confinement {
    uint64_t ids;       /* how many the zygote's first user namespace maps, from 0 on */
    uint32_t boxes_max; /* user namespaces that it may make */
    uint32_t seccomp;   /* index of the profile */
    bool single_id;     /* id 0 only */
};

/* In the launcher's child, as root of its namespaces and in its final root. */
int zygote_confine(const struct zygote_confinement *c, struct err *e);
