/* SPDX-License-Identifier: Apache-2.0 */
/* What the handlers of served agents share. */
#pragma once

#include "agents/agents.h"
#include "api/call/call_impl.h"

#define AGENTS_ERROR_MAX 4096

/* The agent or MCP server that the call names; NULL: answered with 404. */
struct agent *agents_of_call(struct api_call *call, enum agent_kind kind);

/* Gives it the request; NULL: answered. The client's going away cancels it. */
struct agent_call *agents_begin(struct api_call *call, struct agent *agent,
                                enum agent_frame_type type, const json_t *payload);

void agents_reply_err(struct api_call *call, const struct err *e);
extern const struct err agents_bad_answer;

/* The agent's own error (AGENT_ERROR): its status and its text. */
int agents_error_status(const struct agent_answer *answer);
void agents_error_text(const struct agent_answer *answer, char dst[static AGENTS_ERROR_MAX]);
void agents_reply_error(struct api_call *call, const struct agent_answer *answer);

/* The rest of an answer as server-sent events: agents_stream.c. */
void agents_stream(struct api_call *call, struct agent_call *asked, uint32_t mode);
