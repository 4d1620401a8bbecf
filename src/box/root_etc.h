/* SPDX-License-Identifier: Apache-2.0 */
/* The small /etc that every box sees unless its template brings one. */
#pragma once

#include "base/err.h"

/* Writes it below the current directory, which is a root under construction. */
int root_etc_write(struct err *e);
