/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kills processes that a cell has started and left behind. PID 1 of the session does it: hostile
 * code can hide from every other process.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"

/*
 * Serves FRAME_SWEEP: kills every process that was started since KEY_SINCE, but no context (the
 * first KEY_PID and those that follow), no file worker, and no descendant of the contexts that
 * follow. 0, or -errno: some may be left. *ret_order: KEY_ORDER.
 */
int sweep(const struct buf *request, uint64_t *ret_order);
