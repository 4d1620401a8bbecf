/* SPDX-License-Identifier: Apache-2.0 */
/* See confine.c. */
#pragma once

#include "base/err.h"

/* Before there are threads. */
int confine_self(const char *data, struct err *e);
