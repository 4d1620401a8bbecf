/* SPDX-License-Identifier: Apache-2.0 */
/* Files of this machine that the user names: read whole up to a maximum, written whole. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

/*
 * Fill *ret (empty before) up to its maximum; larger input is ERR_INVALID. what names it in errors.
 */
int hostfile_read(const char *path, struct buf *ret, struct err *e);
int hostfile_read_script(const char *path, struct buf *ret,
                         struct err *e); /* drops a leading BOM */
int hostfile_read_fd(int fd, const char *what, struct buf *ret, struct err *e);

/* Whether hostfile_write() has a place to write to: better heard before a run than after it. */
int hostfile_check_target(const char *path, struct err *e);
int hostfile_write(const char *path, const char *data, size_t n, struct err *e);
