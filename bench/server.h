/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Servers that a benchmark starts and ends: `husk up` of the build under test, and its peers. Each
 * gets a free port of loopback and a folder of its own below the scratch folder, which is on a
 * real disk.
 *
 * A server ends with the process that started it, whatever ends that.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "bench.h"

#define SERVER_ARGS_MAX 24

struct server {
    pid_t pid; /* 0: it does not run */
    uint16_t port;
    char folder[PATH_MAX + 64];
};

/*
 * husk up with these flags (NULL-terminated) beside --data and --listen. Returns when it takes
 * work.
 */
int server_husk(const struct world *w, const char *const *flags, struct server *ret, struct err *e);

/* uvicorn with bench/peer_fastapi.py. */
int server_fastapi(const struct world *w, struct server *ret, struct err *e);

/* nginx with one worker and the small static file /health. */
int server_nginx(const struct world *w, struct server *ret, struct err *e);

/*
 * husk agents up with bench/python/echo_project, which serves one agent, and uvicorn with one
 * worker and bench/python/peer_echo.py, which answers the same: ECHO_TARGET.
 */
#define ECHO_TARGET "/agents/echo/"
int server_agent(const struct world *w, struct server *ret, struct err *e);
int server_fastapi_agent(const struct world *w, struct server *ret, struct err *e);

void server_stop(struct server *s); /* waits for its end; fine if it was never started */

/* The child of a server with this name; 0: there is none. */
pid_t server_child(const struct server *s, const char *name);
