# SPDX-License-Identifier: Apache-2.0
"""Ways to use an agent of any kind through its adapter, for tests."""

from __future__ import annotations

import asyncio
from typing import Any

from husk.agents import kinds


def add(x: int, y: int) -> int:
    """Adds two numbers."""
    return x + y


def run(agent: Any, query: str = "hi", session: str = "default") -> str:
    async def go() -> str:
        adapter = await kinds.resolve(agent)
        assert adapter.run is not None
        return await adapter.run(query, session)

    return asyncio.run(go())


def texts(agent: Any, query: str = "hi", session: str = "default") -> list[str]:
    async def go() -> list[str]:
        adapter = await kinds.resolve(agent)
        assert adapter.stream_text is not None
        return [text async for text in adapter.stream_text(query, session)]

    return asyncio.run(go())


def events(agent: Any, query: str = "hi", session: str = "default") -> list[dict[str, Any]]:
    async def go() -> list[dict[str, Any]]:
        adapter = await kinds.resolve(agent)
        assert adapter.stream_events is not None
        return [event async for event in adapter.stream_events(query, session)]

    return asyncio.run(go())


def text_of(stream: list[dict[str, Any]]) -> str:
    return "".join(e["content"] for e in stream if e["type"] == "text")


def others(stream: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [e for e in stream if e["type"] != "text"]


def talk(agent: Any, *turns: tuple[str, str]) -> list[str]:
    """Several (query, session) to the same agent."""

    async def go() -> list[str]:
        adapter = await kinds.resolve(agent)
        assert adapter.run is not None
        return [await adapter.run(query, session) for query, session in turns]

    return asyncio.run(go())
