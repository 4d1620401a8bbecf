/* SPDX-License-Identifier: Apache-2.0 */
/* The small /proc/sys that every box sees instead of the kernel's. */
#pragma once

#include "base/err.h"

#define ROOT_SYS "/run/sys" /* where it waits in a template's root */

/*
 * Writes it below the current directory, which is a root under construction with a /proc. Each box
 * binds it over its own /proc/sys.
 */
int root_sys_write(struct err *e);
