# SPDX-License-Identifier: Apache-2.0
"""Agents of Pydantic AI.

The messages of each session are kept in this process and passed to the next run, so that a session
is a conversation. The numbers of sessions and messages are bounded. The session "default", which all
requests without a session share, is not kept: users would see each other's messages.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections import OrderedDict
from typing import Any, AsyncGenerator, AsyncIterator

from husk.agents.kinds import Adapter, as_text, only_text

MAX_SESSIONS = 1000
MAX_MESSAGES = 200
NO_SESSION = "default"


class _Session:
    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.lock = asyncio.Lock()  # one turn at a time: each continues from the last


class History:
    """The conversations of an agent; the least recently used is dropped first."""

    def __init__(self, max_sessions: int = MAX_SESSIONS, max_messages: int = MAX_MESSAGES) -> None:
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._max_sessions = max_sessions
        self._max_messages = max_messages

    @contextlib.asynccontextmanager
    async def turn(self, session_id: str) -> AsyncIterator[_Session]:
        """Yields the session for one run, which must call `keep` with its messages."""
        if session_id == NO_SESSION:
            yield _Session()
            return
        session = self._sessions.setdefault(session_id, _Session())
        self._sessions.move_to_end(session_id)
        try:
            async with session.lock:
                yield session
        finally:
            self._forget()

    def keep(self, session: _Session, messages: list[Any]) -> None:
        session.messages = trim(messages, self._max_messages)

    def _forget(self) -> None:
        for session_id in list(self._sessions):
            if len(self._sessions) <= self._max_sessions:
                return
            if not self._sessions[session_id].lock.locked():
                del self._sessions[session_id]


def trim(messages: list[Any], most: int) -> list[Any]:
    """Drops the oldest turns as a whole: models reject a tool's result without its call.

    System prompts are in the first message and are kept.
    """
    if len(messages) <= most:
        return list(messages)
    for at in range(len(messages) - most, len(messages)):
        if _has_part(messages[at], "user-prompt"):
            system = [p for p in messages[0].parts if p.part_kind == "system-prompt"]
            first = dataclasses.replace(messages[at], parts=[*system, *messages[at].parts])
            return [first, *messages[at + 1 :]]
    return list(messages)  # keep a single turn that exceeds the bound


def _has_part(message: Any, kind: str) -> bool:
    return any(part.part_kind == kind for part in message.parts)


def adapt(agent: Any) -> Adapter:
    history = History()

    async def run(query: str, session_id: str) -> str:
        async with history.turn(session_id) as session:
            result = await agent.run(query, message_history=session.messages or None)
            history.keep(session, result.all_messages())
        return as_text(result.output)

    async def stream_events(query: str, session_id: str) -> AsyncGenerator[dict[str, Any], None]:
        said = False
        async with history.turn(session_id) as session:
            async with _open(
                agent.run_stream_events(query, message_history=session.messages or None)
            ) as events:
                async for event in events:
                    if event.event_kind == "agent_run_result":
                        history.keep(session, event.result.all_messages())
                        output = event.result.output
                        if not said or not isinstance(output, str):
                            yield {"type": "text", "content": as_text(output)}
                        continue
                    ours = _event(event)
                    if ours is not None:
                        said = said or ours["type"] == "text"
                        yield ours

    return Adapter(
        "pydantic_ai", run=run, stream_text=only_text(stream_events), stream_events=stream_events
    )


@contextlib.asynccontextmanager
async def _open(events: Any) -> AsyncIterator[Any]:
    """Version 2 returns a context manager, version 1 the iterator itself."""
    if hasattr(events, "__aenter__"):
        async with events as opened:
            yield opened
    else:
        async with contextlib.aclosing(events) as opened:
            yield opened


def _event(event: Any) -> dict[str, Any] | None:
    """Converts an event of Pydantic AI to ours; None for events that are not shown."""
    kind = event.event_kind
    if kind == "part_start" and event.part.part_kind == "text" and event.part.content:
        return {"type": "text", "content": event.part.content}
    if kind == "part_delta" and event.delta.part_delta_kind == "text" and event.delta.content_delta:
        return {"type": "text", "content": event.delta.content_delta}
    if kind == "function_tool_call":
        return {
            "type": "tool_call",
            "tool": event.part.tool_name,
            "input": event.part.args_as_dict(),
        }
    if kind == "function_tool_result":
        part = event.part if hasattr(event, "part") else event.result
        return {"type": "tool_result", "tool": part.tool_name, "output": part.content}
    return None
