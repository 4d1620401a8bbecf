# SPDX-License-Identifier: Apache-2.0
"""The application of a replica of Ray Serve, called without Ray: what agents raise, streams, time
limits.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx
import pytest
from test_ray_serve import deployment, events

import husk
from husk.serving.ray_app import AgentApp


async def serving(agent: Any, **fields: Any) -> httpx.AsyncClient:
    """A client of an application that has started."""
    app: Any = AgentApp(deployment("agent", agent, **fields))
    sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    messages = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])

    async def receive() -> dict[str, Any]:
        return next(messages)

    await app({"type": "lifespan"}, receive, sent.put)
    assert sent.get_nowait() == {"type": "lifespan.startup.complete"}
    transport = httpx.ASGITransport(app=app)
    return httpx.AsyncClient(transport=transport, base_url="http://replica/agents/agent")


def ask(agent: Any, path: str = "/", limit_ms: int = 60_000, **fields: Any) -> httpx.Response:
    """The answer to one question."""

    async def main() -> httpx.Response:
        async with await serving(agent, request_timeout_ms=limit_ms) as client:
            return await client.post(path, json={"query": "q", **fields})

    return asyncio.run(main())


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_an_agent_that_exits_is_500(kind: type[BaseException]) -> None:
    async def leave(query: str) -> str:
        raise kind("no more")

    answer = ask(leave)
    assert (answer.status_code, answer.json()) == (500, {"detail": "no more"})


def deep() -> Any:
    value: Any = "bottom"
    for _ in range(80):
        value = [value]
    return value


class Streams(husk.Agent):
    """Steps that belong to one task."""

    async def run(self, query: str) -> str:
        return query

    async def stream_text(self, query: str) -> AsyncIterator[str]:
        token = SEEN.set(query)
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep, 0)
            yield SEEN.get()
        SEEN.reset(token)
        yield "end"

    async def stream_events(self, query: str) -> AsyncIterator[dict[str, Any]]:
        yield {"type": "text", "content": query}
        if query == "deep":
            yield {"type": "text", "content": deep()}
        await asyncio.sleep(3600)


class Deep:
    def run(self, data: dict[str, Any]) -> dict[str, Any]:
        return {"answer": deep()}


SEEN = contextvars.ContextVar("SEEN", default="nothing")


def test_a_stream_runs_in_one_task() -> None:
    assert events(ask(Streams, stream="text").text) == ["q", "end", '{"type": "done"}']


def test_a_stream_ends_in_time() -> None:
    said = events(ask(Streams, limit_ms=100, stream="events").text)
    assert json.loads(said[0]) == {"type": "text", "content": "q"}
    last = {"type": "error", "content": "the agent did not answer within 100 ms"}
    assert [json.loads(event) for event in said[1:]] == [last]


def test_an_answer_that_is_nested_too_deeply() -> None:
    said = events(ask(Streams, query="deep", stream="events").text)
    assert json.loads(said[-1])["type"] == "error" and "nested" in said[-1]
    answer = ask(Deep(), "/chat", data={})
    assert answer.status_code == 500 and "nested" in answer.json()["detail"]
