/* SPDX-License-Identifier: Apache-2.0 */
/* Folders of the file system. */
#pragma once

#include <sys/types.h>

/* Creates the missing parent folders of path, not path itself. 0 or -errno. */
int dirs_make_parents(const char *path, mode_t mode);
