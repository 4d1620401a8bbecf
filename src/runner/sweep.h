/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ending what a cell has started and left behind, as PID 1 of its session can: hostile code hides
 * from everybody else.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"

/*
 * Serves FRAME_SWEEP: kills every process that came into being since KEY_SINCE, but no context
 * (the first KEY_PID and those that follow), no file worker, and nothing that comes from one of
 * the contexts that follow.
 */
int sweep(const struct buf *request,
          uint64_t *ret_order); /* KEY_ORDER; 0, or -errno: nobody can tell what is left */
