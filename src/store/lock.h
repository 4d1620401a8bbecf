/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One daemon per data directory: an exclusive lock on DIR/lock, which holds the owner's pid as
 * text. The kernel drops the lock when its holder dies, however it dies.
 */
#pragma once

#include "base/err.h"

/* The descriptor is the lock; owned. -1 and *e: ERR_CONFLICT when another process has it. */
int lock_take(const char *dir, struct err *e);
