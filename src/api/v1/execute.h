/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting an execution, as execute, execute-sync and execute-stream all do it. Private to handlers
 * of /api/v1.
 */
#pragma once

#include "api/call/call.h"
#include "service/service.h"

/* Whose keys those of a session's executions are. */
#define V1_KEY_SCOPE_MAX (SERVICE_ID_SIZE + 16)
void v1_key_scope(struct api_call *call, char ret[static V1_KEY_SCOPE_MAX]);

/*
 * Starts what the body asks for in the session of the path, or finds what the same request with
 * the same key started. Waits until it is durable. -1: answered already.
 */
int v1_execute_start(struct api_call *call, struct execution_entry *ret);
