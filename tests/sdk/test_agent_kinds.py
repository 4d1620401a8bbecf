# SPDX-License-Identifier: Apache-2.0
"""Agents without a framework: detected, run, streamed. Those of frameworks:
test_agent_frameworks.py.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import threading
from typing import Any, AsyncIterator, Iterator

import pytest
from agent_ways import add, events, run, texts

from husk import Agent
from husk.agents import kinds

# ---- functions ----


def test_plain_function_runs_on_a_thread() -> None:
    def agent(query: str) -> str:
        return f"{query} {threading.current_thread() is threading.main_thread()}"

    assert kinds.detect(agent) == "callable"
    assert run(agent, "here") == "here False"


def test_async_function_runs_on_the_loop() -> None:
    async def agent(query: str) -> str:
        await asyncio.sleep(0)
        return f"{query} {threading.current_thread() is threading.main_thread()}"

    assert run(agent, "here") == "here True"


def test_session_is_given_to_who_takes_it() -> None:
    def agent(query: str, session_id: str) -> str:
        return f"{query}@{session_id}"

    async def with_default(query: str, session_id: str = "none") -> str:
        return f"{query}@{session_id}"

    def other_default(query: str, times: int = 2) -> str:
        return query * times

    assert run(agent, "q", "s") == "q@s"
    assert run(with_default, "q", "s") == "q@s"
    assert run(other_default, "q", "s") == "qq"


def test_objects_partials_lambdas() -> None:
    class Callable:
        async def __call__(self, query: str) -> str:
            return f"called with {query}"

    assert run(Callable(), "x") == "called with x"
    assert run(functools.partial(lambda a, query: a + query, "a"), "b") == "ab"
    assert run(lambda query: query[::-1], "abc") == "cba"


def test_what_is_not_text_becomes_json() -> None:
    @dataclasses.dataclass
    class Point:
        x: int

    assert run(lambda query: {"n": [1, Point(2)]}) == '{"n": [1, {"x": 2}]}'
    assert run(lambda query: None) == ""
    assert run(lambda query: 3) == "3"


def test_generator_functions_stream() -> None:
    def plain(query: str) -> Iterator[str]:
        yield from query.split()

    async def later(query: str) -> AsyncIterator[Any]:
        yield "a"
        yield {"type": "tool_call", "tool": "t", "input": {}}
        yield {"type": "text", "content": "b"}

    assert texts(plain, "one two") == ["one", "two"]
    assert run(plain, "one two") == "onetwo"
    assert texts(later) == ["a", "b"]
    assert run(later) == "ab"
    assert [e["type"] for e in events(later)] == ["text", "tool_call", "text"]


def test_function_cannot_stream() -> None:
    adapter = asyncio.run(kinds.resolve(lambda query: query))
    assert adapter.streams == [] and adapter.stream_text is None and adapter.chat is None


def test_errors_of_an_agent_are_its_own() -> None:
    def broken(query: str) -> str:
        raise LookupError("nothing found")

    with pytest.raises(LookupError, match="nothing found"):
        run(broken)
    with pytest.raises(SystemExit):
        run(lambda query: exit(3))


# ---- factories ----


def test_factories() -> None:
    async def make_async() -> Any:
        return lambda query: query + " of an async factory"

    def make(model: str = "offline") -> Any:
        return lambda query: f"{query} of {model}"

    assert kinds.detect(make) == "factory"
    assert run(make) == "hi of offline"
    assert run(make_async) == "hi of an async factory"
    assert run(lambda: make) == "hi of offline"


def test_an_argument_called_query_is_no_factory() -> None:
    assert run(lambda query="none": query, "given") == "given"


def test_factories_that_cannot_be_called() -> None:
    class Needy:
        def __init__(self, key: str) -> None:
            self.key = key

    with pytest.raises(TypeError, match="Needy cannot be called without arguments.*'key'"):
        run(Needy)
    with pytest.raises(TypeError, match="returned None"):
        run(lambda: None)

    def endless() -> Any:
        return endless

    with pytest.raises(TypeError, match="in a row"):
        run(endless)


@pytest.mark.parametrize("thing, name", [(42, "int"), ("text", "str"), (object(), "object")])
def test_unknown_kinds_are_refused_by_name(thing: Any, name: str) -> None:
    with pytest.raises(TypeError, match=f"an object of type {name};"):
        kinds.detect(thing)
    with pytest.raises(TypeError, match=f"an object of type {name};"):
        run(lambda: thing)


# ---- husk.Agent and AgentProtocol ----


class Calculator(Agent):
    tools = [add]

    async def run(self, query: str) -> str:
        return f"{query}: {await self.call_tool('add', x=1, y=2)}"


class Streaming(Calculator):
    async def stream_text(self, query: str) -> AsyncIterator[str]:
        for word in query.split():
            yield word


def test_agent_class_and_instance() -> None:
    assert kinds.detect(Calculator()) == "husk"
    assert run(Calculator(), "sum") == "sum: 3"
    assert run(Calculator, "sum") == "sum: 3"


def test_agent_streams_what_it_has() -> None:
    assert asyncio.run(kinds.resolve(Calculator)).streams == []
    adapter = asyncio.run(kinds.resolve(Streaming))
    assert adapter.streams == ["text"] and adapter.framework == "husk"
    assert texts(Streaming, "a b") == ["a", "b"]


def test_a_stream_that_is_prepared_by_a_plain_function_is_prepared_on_a_thread() -> None:
    def where() -> str:
        main = threading.current_thread() is threading.main_thread()
        return "loop" if main else "thread"

    class Prepared(Calculator):
        def stream_text(self, query: str) -> Iterator[str]:
            return iter([query, where()])

        def stream_events(self, query: str) -> AsyncIterator[str]:
            return self._later(where())

        async def _later(self, place: str) -> AsyncIterator[str]:
            for text in (place, where()):
                yield text

    assert texts(Prepared, "a") == ["a", "thread"]
    assert [e["content"] for e in events(Prepared, "a")] == ["thread", "loop"]


def test_plain_run_and_session() -> None:
    class Plain(Agent):
        def run(self, query: str, session_id: str) -> str:  # type: ignore[override]
            return f"{query}@{session_id}"

    assert run(Plain, "q", "s") == "q@s"


def test_protocol() -> None:
    class Doubling:
        def run(self, data: dict[str, Any]) -> dict[str, Any]:
            return {"twice": data["n"] * 2}

        def stream_events(self, data: dict[str, Any]) -> Iterator[dict[str, Any]]:
            for n in range(data["n"]):
                yield {"type": "count", "n": n}

    class Wrong:
        async def run(self, data: dict[str, Any]) -> str:
            return "text"

    async def go() -> None:
        adapter = await kinds.resolve(Doubling())
        assert adapter.run is None and adapter.streams == ["events"]
        assert adapter.chat is not None and adapter.chat_events is not None
        assert await adapter.chat({"n": 4}, "default") == {"twice": 8}
        assert [e["n"] async for e in adapter.chat_events({"n": 3}, "default")] == [0, 1, 2]
        wrong = await kinds.resolve(Wrong())
        assert wrong.chat is not None
        with pytest.raises(TypeError, match="must return a dict, not str"):
            await wrong.chat({}, "default")

    assert kinds.detect(Doubling()) == "protocol"
    asyncio.run(go())
