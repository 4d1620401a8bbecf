/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where husk's own files are: found from the running program, so that a build tree and an install
 * both work.
 */
#pragma once

#include <stddef.h>

#include "base/err.h"

/* <prefix>/lib/husk/<name>, or below $HUSK_LIB_DIR. */
int paths_lib(const char *name, char *ret, size_t size, struct err *e);

/* The directory itself; an error when boxes could not read it: as root their ids are not ours. */
int paths_lib_dir(char *ret, size_t size, struct err *e);

/* husk-launcher: beside the running program, or $HUSK_LAUNCHER. */
int paths_launcher(char *ret, size_t size, struct err *e);

/* huskd: beside the running program. */
int paths_daemon(char *ret, size_t size, struct err *e);
