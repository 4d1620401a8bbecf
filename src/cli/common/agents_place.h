/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the server of a project keeps its data and its socket, so that it meets no other server
 * and huskd can reach it. Works out paths only; makes nothing.
 */
#pragma once

#include <limits.h>

#include "base/err.h"

/*
 * given (--data), made absolute; else PROJECT/.husk, with a folder of its own in it for a script
 * (NULL: none). As root a place below /var/lib if accounts other than root, one of which is
 * huskd's, may not enter the project.
 */
int agents_place_data(const char *given, const char *project, const char *script,
                      char ret[PATH_MAX], struct err *e);

/*
 * DATA/husk.sock; if that is too long for a socket, a name made of its hash where sockets are kept.
 */
int agents_place_socket(const char *data, char ret[PATH_MAX], struct err *e);
