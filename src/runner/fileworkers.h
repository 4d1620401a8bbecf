/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file workers of a session, as its PID 1 keeps them: forked on request, killed when the peer
 * closes their socket. Only killing removes a worker that user code has stopped.
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
 * Forks a worker that serves this socket. The socket is taken; on failure it is closed, which the
 * peer sees.
 */
void fileworkers_start(int sock);

/* Fills p for poll(). */
/* Milliseconds until fileworkers_serve() has something to do by itself; -1: nothing. */
int fileworkers_timeout(void);
void fileworkers_watch(struct pollfd p[FILEWORKERS_MAX]);
/* Kills workers whose peer has closed the socket. */
void fileworkers_serve(const struct pollfd p[FILEWORKERS_MAX]);

bool fileworkers_has(pid_t pid);

/* A child is gone. True if it was one of them. */
bool fileworkers_reaped(pid_t pid);

/* In a child of PID 1: closes the workers' sockets. */
void fileworkers_forget(void);
