/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that arrive with a run and leave with its result. Runs inside the box with the rights of
 * user code, so names are not checked here: a wrong one can only harm the box itself.
 */
#pragma once

#include "base/err.h"
#include "wire/frame.h"

/* Writes one KEY_PUT field ("name NUL content") below the current directory. */
int files_put(const struct frame_field *put, struct err *e);

/* Sends the file named by one KEY_GET field as a FILE frame, or why it cannot be read. */
int files_send(int control, const struct frame_head *run, const struct frame_field *get);
