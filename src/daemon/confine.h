/* SPDX-License-Identifier: Apache-2.0 */
/* See confine.c. */
#pragma once

#include "base/err.h"

/* Before there are threads. store: the one folder to write to. */
int confine_self(const char *store, struct err *e);
