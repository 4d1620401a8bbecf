/* SPDX-License-Identifier: Apache-2.0 */
/* Files of this machine that the user names: read whole up to a maximum, written whole. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

/*
 * Fill *ret (empty before) up to its maximum; larger input is ERR_INVALID. `what` names it in
 * errors. hostfile_read_script() drops a leading BOM.
 */
int hostfile_read(const char *path, struct buf *ret, struct err *e);
int hostfile_read_script(const char *path, struct buf *ret, struct err *e);
int hostfile_read_fd(int fd, const char *what, struct buf *ret, struct err *e);

/* Checks before a run that hostfile_write() will be able to write. */
int hostfile_check_target(const char *path, struct err *e);
int hostfile_write(const char *path, const char *data, size_t n, struct err *e);
