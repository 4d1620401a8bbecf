/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting an execution, as execute, execute-sync and execute-stream all do it. Private to handlers
 * of /api/v1.
 */
#pragma once

#include "api/call/call.h"
#include "service/service.h"

/* The record of an execution, and the execution itself while the service has it. */
struct v1_execution {
    struct execution *x;                  /* NULL: over */
    struct store_execution *row;          /* NULL while x is there */
    const struct store_execution *record; /* of either */
};

/* ERR_NOT_FOUND when there is none. */
int v1_execution_open(struct service *svc, const char *id, struct v1_execution *ret, struct err *e);
void v1_execution_close(struct v1_execution *it);
#define AUTO_V1_EXECUTION AUTO(v1_execution_close)

/* Whose keys those of a session's executions are. */
#define V1_KEY_SCOPE_MAX (STORE_ID_MAX + 16)
void v1_key_scope(struct api_call *call, char ret[static V1_KEY_SCOPE_MAX]);

/*
 * Starts what the body asks for in the session of the path, or finds what the same request with
 * the same key started. Waits until it is durable. -1: answered already.
 */
int v1_execute_start(struct api_call *call, struct v1_execution *ret);
