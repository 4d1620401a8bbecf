/* SPDX-License-Identifier: Apache-2.0 */
/* What the handlers of served agents share. */
#pragma once

#include "agents/agents.h"
#include "api/call/call_impl.h"

/* The agent or MCP server that the call names; NULL: answered with 404. */
struct agent *agents_of_call(struct api_call *call, enum agent_kind kind);

/* Gives it the request; NULL: answered. The client's going away cancels it. */
struct agent_call *agents_begin(struct api_call *call, struct agent *agent,
                                enum agent_frame_type type, const json_t *payload);

/* The answer that is an error, as HTTP. */
void agents_reply_error(struct api_call *call, const struct agent_error *e);
extern const struct agent_error agents_bad_answer;

/* The rest of an answer as server-sent events: agents_stream.c. */
void agents_stream(struct api_call *call, struct agent_call *asked, uint32_t mode);
