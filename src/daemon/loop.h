/* SPDX-License-Identifier: Apache-2.0 */
/* Fibers on a libuv loop: every turn of the loop lets those go on that can. */
#pragma once

#include <uv.h>

#include "base/err.h"

int loop_serve_fibers(uv_loop_t *loop, struct err *e);
