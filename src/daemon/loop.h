/* SPDX-License-Identifier: Apache-2.0 */
/* Fibers on a libuv loop: every turn of the loop runs those that can go on. */
#pragma once

#include <uv.h>

#include "base/err.h"

int loop_serve_fibers(uv_loop_t *loop, struct err *e);
