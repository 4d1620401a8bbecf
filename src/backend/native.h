/* SPDX-License-Identifier: Apache-2.0 */
/* The native back end: one husk-launcher process and the connection to it. */
#pragma once

#include "backend/backend.h"

/* Starts the launcher at path and greets it. ERR_ISOLATION when the host offers less than asked. */
int native_open(const char *path, enum launcher_isolation least, struct backend **ret,
                struct err *e);
/*
 * The same over a socket whose other end a supervised launcher has. The socket is taken in every
 * case.
 */
int native_attach(int socket, enum launcher_isolation least, struct backend **ret, struct err *e);
