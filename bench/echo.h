/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cheapest conversation that two processes can have: a word there, the same word back. A unit
 * for others.
 */
#pragma once

#include <sys/types.h>

#include "base/err.h"

struct echo {
    pid_t pid;
    int socket;
};

int echo_unix(struct echo *ret, struct err *e); /* over a pair of unix sockets */
int echo_tcp(struct echo *ret, struct err *e);  /* over TCP on loopback, without delay */
void echo_close(struct echo *p);                /* ends the other process; fine if socket is -1 */

/* One round trip; ms. The signature is that of a contender. */
int echo_once(void *echo, double *ret, struct err *e);
