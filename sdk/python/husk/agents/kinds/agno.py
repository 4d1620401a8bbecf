# SPDX-License-Identifier: Apache-2.0
"""Agents and teams of Agno. Sessions are in the agent's own database, if it has one; the adapter
passes the session's name.
"""

from __future__ import annotations

import contextlib
from typing import Any, AsyncGenerator

from husk.agents.kinds import Adapter, as_text, only_text
from husk.errors import AgentRunError


def adapt(agent: Any) -> Adapter:
    async def run(query: str, session_id: str) -> str:
        output = await agent.arun(query, session_id=session_id)
        status = getattr(output.status, "value", output.status)
        if str(status).upper() == "ERROR":
            raise AgentRunError(as_text(output.content) or "the run failed")
        return as_text(output.content)

    async def stream_events(query: str, session_id: str) -> AsyncGenerator[dict[str, Any], None]:
        stream = agent.arun(query, session_id=session_id, stream=True, stream_events=True)
        # A team's own events have a prefix; the text of its members is not part of the answer.
        prefix = "Team" if hasattr(agent, "members") else ""
        said = False
        async with contextlib.aclosing(stream) as events:
            async for event in events:
                if event.event == f"{prefix}RunError":
                    raise AgentRunError(event.content or "the run failed")
                if (
                    event.event == f"{prefix}RunCompleted"
                    and not said
                    and event.content is not None
                ):
                    yield {"type": "text", "content": as_text(event.content)}
                ours = _event(event, prefix)
                if ours is not None:
                    said = said or ours["type"] == "text"
                    yield ours

    return Adapter(
        "agno", run=run, stream_text=only_text(stream_events), stream_events=stream_events
    )


def _event(event: Any, prefix: str) -> dict[str, Any] | None:
    name = event.event
    if name == f"{prefix}RunContent" and event.content:
        return {"type": "text", "content": as_text(event.content)}
    if name.endswith("ToolCallStarted") and event.tool is not None:
        return {
            "type": "tool_call",
            "tool": event.tool.tool_name,
            "input": event.tool.tool_args or {},
        }
    if name.endswith("ToolCallCompleted") and event.tool is not None:
        return {"type": "tool_result", "tool": event.tool.tool_name, "output": event.tool.result}
    if name.endswith("ToolCallError") and event.tool is not None:
        return {
            "type": "tool_result",
            "tool": event.tool.tool_name,
            "output": f"Error: {event.error}",
        }
    return None
