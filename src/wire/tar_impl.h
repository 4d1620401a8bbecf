/* SPDX-License-Identifier: Apache-2.0 */
/* What the two files of the tar reader share. */
#pragma once

#include "wire/tar.h"

/* Remembers what is wrong. Returns -EBADMSG. */
int tar_refuse(struct tar_reader *r, const char *problem);

/* An extended header is complete: it changes how the next header is understood. 0 or -EBADMSG. */
int tar_take_extended(struct tar_reader *r);
