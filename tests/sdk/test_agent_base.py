# SPDX-License-Identifier: Apache-2.0
"""husk.Agent and AgentProtocol."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from husk import Agent, AgentProtocol


def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


async def shout(text: str) -> str:
    return text.upper()


class Calculator(Agent):
    tools = [add, shout]

    async def run(self, query: str) -> str:
        return str(await self.call_tool("add", a=len(query), b=1))


def test_run_must_be_written() -> None:
    class Lazy(Agent):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Lazy()  # type: ignore[abstract]


def test_tools_are_empty_by_default() -> None:
    class Bare(Agent):
        async def run(self, query: str) -> str:
            return query

    assert Bare.tools == []
    assert Bare().get_tool_names() == []


def test_names_and_descriptions() -> None:
    agent = Calculator()
    assert agent.get_tool_names() == ["add", "shout"]
    assert agent.get_tool_descriptions() == {"add": "Adds two numbers.", "shout": "Calls shout"}


def test_calls_plain_and_async_tools() -> None:
    agent = Calculator()
    assert asyncio.run(agent.run("four")) == "5"
    assert asyncio.run(agent.call_tool("shout", text="hi")) == "HI"


def test_unknown_tool_lists_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"no tool 'sub'; available: add, shout"):
        asyncio.run(Calculator().call_tool("sub"))


def test_parallel_calls_overlap_and_keep_their_order() -> None:
    both = threading.Barrier(2, timeout=30)

    def meet(name: str) -> str:
        both.wait()  # only passes when the other call runs at the same time
        return name

    class Meeting(Agent):
        tools = [meet]

        async def run(self, query: str) -> str:
            return ",".join(
                await self.call_tools_parallel([("meet", {"name": "a"}), ("meet", {"name": "b"})])
            )

    assert asyncio.run(Meeting().run("")) == "a,b"


def test_parallel_calls_check_all_names_first() -> None:
    called: list[int] = []

    class Careful(Agent):
        tools = [called.append]

        async def run(self, query: str) -> str:
            await self.call_tools_parallel([("append", {}), ("nothing", {})])
            return ""

    with pytest.raises(ValueError, match="nothing"):
        asyncio.run(Careful().run(""))
    assert called == []


def test_a_tool_that_raises_raises() -> None:
    def broken() -> None:
        raise KeyError("gone")

    class Breaking(Agent):
        tools = [broken]

        async def run(self, query: str) -> str:
            return str(await self.call_tool("broken"))

    with pytest.raises(KeyError, match="gone"):
        asyncio.run(Breaking().run(""))


def test_tools_of_frameworks() -> None:
    from agno.tools import tool as agno_tool
    from langchain_core.tools import tool as langchain_tool
    from pydantic_ai import Tool

    class Mixed(Agent):
        tools = [
            langchain_tool(add),
            Tool(add, name="add_pydantic"),
            agno_tool(name="add_agno")(add),
        ]

        async def run(self, query: str) -> str:
            return query

    agent = Mixed()
    assert agent.get_tool_names() == ["add", "add_pydantic", "add_agno"]
    for name in agent.get_tool_names():
        assert asyncio.run(agent.call_tool(name, a=2, b=3)) == 5, name
    assert agent.get_tool_descriptions()["add"].startswith("Adds two numbers")


def test_protocol_is_checked_at_run_time() -> None:
    class Fits:
        def run(self, data: dict[str, Any]) -> dict[str, Any]:
            return data

    assert isinstance(Fits(), AgentProtocol)
    assert not isinstance(object(), AgentProtocol)
