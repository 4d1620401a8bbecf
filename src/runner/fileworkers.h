/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file workers of a session, as its PID 1 keeps them: forked on request, killed when the other
 * end of their socket is closed. That is the only way to be rid of one that user code has stopped.
 *
 * PID 1 holds each worker's socket too, to see that it closes. Contexts must not:
 * fileworkers_forget().
 */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define FILEWORKERS_MAX 8

/*
 * Forks a worker that serves this socket. The socket is taken, also on failure, which its other end
 * sees as its close.
 */
void fileworkers_start(int sock);

/* Fills p for poll(). */
/* Milliseconds until fileworkers_serve() has something to do by itself; -1: nothing. */
int fileworkers_timeout(void);
void fileworkers_watch(struct pollfd p[FILEWORKERS_MAX]);
/* Kills those that nobody talks to any more. */
void fileworkers_serve(const struct pollfd p[FILEWORKERS_MAX]);

bool fileworkers_has(pid_t pid);

/* A child is gone. True if it was one of them. */
bool fileworkers_reaped(pid_t pid);

/* In a child of PID 1: closes what is not its own. */
void fileworkers_forget(void);
