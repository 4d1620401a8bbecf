/* SPDX-License-Identifier: Apache-2.0 */
/* Folders of the file system. */
#pragma once

#include <sys/types.h>

/* Makes the folders on the way to path, not path itself; those that are there stay. 0 or -errno. */
int dirs_make_parents(const char *path, mode_t mode);
