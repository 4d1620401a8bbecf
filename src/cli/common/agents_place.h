/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths of the data folder and the socket of a project's server, which no other server uses and
 * huskd can reach. Creates nothing.
 */
#pragma once

#include <limits.h>

#include "base/err.h"

/*
 * given (--data) as an absolute path; without it PROJECT/.husk, or a folder below it for a script
 * (NULL: none). For root a folder below /var/lib if other accounts, such as that of huskd, cannot
 * enter the project.
 */
int agents_place_data(const char *given, const char *project, const char *script,
                      char ret[PATH_MAX], struct err *e);

/*
 * DATA/husk.sock or, if that is too long for a socket, a name with its hash in the run-time folder.
 */
int agents_place_socket(const char *data, char ret[PATH_MAX], struct err *e);
