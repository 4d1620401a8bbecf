/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that come with a run and go back with its result. Runs inside the box with the user code's
 * rights, so the names need no guarding here: a lie can only hurt the box itself.
 */
#pragma once

#include "base/err.h"
#include "wire/frame.h"

/* Writes one KEY_PUT field ("name NUL content") below the current directory. */
int files_put(const struct frame_field *put, struct err *e);

/* Sends the file named by one KEY_GET field as a FILE frame; what cannot be read is said in it. */
int files_send(int control, const struct frame_head *run, const struct frame_field *get);
