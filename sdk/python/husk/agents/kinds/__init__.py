# SPDX-License-Identifier: Apache-2.0
"""The kinds of agents, and one adapter interface for all.

`detect` returns the kind of an object without calling it; `resolve` calls factories and returns an
adapter. Frameworks are recognised by the names of an object's classes, so none is imported. Each
framework's adapter is in its own file.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import json
from typing import Any, AsyncGenerator, Awaitable, Callable, Optional

from husk.agents.base import Agent
from husk.errors import AgentTypeError

Run = Callable[[str, str], Awaitable[str]]
StreamText = Callable[[str, str], AsyncGenerator[str, None]]
StreamEvents = Callable[[str, str], AsyncGenerator[dict[str, Any], None]]
Chat = Callable[[dict[str, Any], str], Awaitable[dict[str, Any]]]
ChatText = Callable[[dict[str, Any], str], AsyncGenerator[str, None]]
ChatEvents = Callable[[dict[str, Any], str], AsyncGenerator[dict[str, Any], None]]

_FACTORIES_IN_A_ROW = 8
_FRAMEWORKS = ("pydantic_ai", "pydantic_graph", "langchain_core", "langchain", "langgraph", "agno")

KNOWN = (
    "a Pydantic AI agent, a LangChain runnable or LangGraph graph, an Agno agent or team, a husk.Agent, an object with "
    "run(data), a function that takes the query, or a factory that makes one of these"
)


@dataclasses.dataclass
class Adapter:
    """The functions that run one agent; None for those it does not support."""

    framework: str
    run: Optional[Run] = None
    stream_text: Optional[StreamText] = None
    stream_events: Optional[StreamEvents] = None
    chat: Optional[Chat] = None
    chat_text: Optional[ChatText] = None
    chat_events: Optional[ChatEvents] = None

    @property
    def streams(self) -> list[str]:
        text = self.stream_text or self.chat_text
        events = self.stream_events or self.chat_events
        return [name for name, there in (("text", text), ("events", events)) if there is not None]


def only_text(stream_events: StreamEvents) -> StreamText:
    """Returns the text stream of an agent that streams events."""

    async def stream_text(query: str, session_id: str) -> AsyncGenerator[str, None]:
        async with contextlib.aclosing(stream_events(query, session_id)) as events:
            async for event in events:
                if event["type"] == "text":
                    yield event["content"]

    return stream_text


def detect(agent: Any) -> str:
    """Returns the kind: "pydantic_ai", "langchain", "agno", "husk", "protocol", "callable" or
    "factory".

    Raises:
        AgentTypeError: it is none of these; the message names the object's type.
    """
    if not isinstance(agent, type):
        known = _detect_object(agent)
        if known is not None:
            return known
    elif issubclass(agent, Agent):
        return "factory"
    if callable(agent):
        return "callable" if _takes_query(agent) else "factory"
    raise _unknown(agent)


def _detect_object(agent: Any) -> Optional[str]:
    if is_mcp(agent):
        raise AgentTypeError(f"{type_name(agent)} is an MCP server; use serve_mcp() for it")
    if _derives_from(agent, "pydantic_ai", "AbstractAgent", "Agent"):
        return "pydantic_ai"
    if _derives_from(agent, "langchain_core", "Runnable"):
        return "langchain"
    if _derives_from(agent, "agno", "Agent", "Team"):
        return "agno"
    if isinstance(agent, Agent):
        return "husk"
    if any(_derives_from(agent, package) for package in _FRAMEWORKS):
        raise _unknown(agent)  # a part of a framework, whose run() has another meaning
    if not inspect.isroutine(agent) and callable(getattr(agent, "run", None)):
        return "protocol"
    return None


def _unknown(agent: Any) -> AgentTypeError:
    hint = "; compile() it first" if _derives_from(agent, "langgraph", "StateGraph") else ""
    return AgentTypeError(
        f"husk cannot serve an object of type {type_name(agent)}{hint}; it serves {KNOWN}"
    )


def is_mcp(value: Any) -> bool:
    """Returns whether an object is an MCP server: of the mcp package (any version) or of fastmcp."""
    names = ("FastMCP", "MCPServer", "Server")
    return _derives_from(value, "mcp", *names) or _derives_from(value, "fastmcp", *names)


async def resolve(agent: Any) -> Adapter:
    """Returns an adapter for any served object; calls factories and awaits async ones."""
    for _ in range(_FACTORIES_IN_A_ROW):
        kind = detect(agent)
        if kind != "factory":
            return _adapter(kind, agent)
        agent = make(agent)
        if inspect.isawaitable(agent):
            agent = await agent
    raise AgentTypeError(f"a factory returned another factory {_FACTORIES_IN_A_ROW} times in a row")


def make(factory: Callable[[], Any]) -> Any:
    """Calls a factory; raises AgentTypeError if it requires arguments or returns None."""
    name = getattr(factory, "__qualname__", type_name(factory))
    try:
        inspect.signature(factory).bind()
    except TypeError as e:
        raise AgentTypeError(
            f"{name} cannot be called without arguments ({e}); pass an instance"
        ) from None
    except ValueError:
        pass  # a builtin without a signature
    made = factory()
    if made is None:
        raise AgentTypeError(
            f"{name}() takes no query, so it is a factory, but it returned None; husk serves {KNOWN}"
        )
    return made


def _adapter(kind: str, agent: Any) -> Adapter:
    # Imported here, because each of these files imports this one.
    from husk.agents.kinds import agno as kind_agno
    from husk.agents.kinds import langchain as kind_langchain
    from husk.agents.kinds import plain as kind_plain
    from husk.agents.kinds import pydantic as kind_pydantic

    adapt = {
        "pydantic_ai": kind_pydantic.adapt,
        "langchain": kind_langchain.adapt,
        "agno": kind_agno.adapt,
        "husk": kind_plain.adapt_agent,
        "protocol": kind_plain.adapt_protocol,
        "callable": kind_plain.adapt_callable,
    }
    return adapt[kind](agent)


def _takes_query(function: Any) -> bool:
    """Returns whether a function answers queries: it requires an argument, or its first one is named
    `query`. Otherwise it is a factory.

    A class is always a factory. `*args` counts as an argument: undocumented wrappers have it.
    """
    if isinstance(function, type):
        return False
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return True
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return True
    return bool(places) and (
        places[0].default is inspect.Parameter.empty or places[0].name == "query"
    )


def _derives_from(value: Any, package: str, *names: str) -> bool:
    """Returns whether an object's class derives from a class of a package: one with these names, or
    any.

    Compares names, so that nothing is imported.
    """
    return any(
        (not names or c.__name__ in names) and c.__module__.partition(".")[0] == package
        for c in type(value).__mro__
    )


def type_name(value: Any) -> str:
    """Returns the full name of an object's type, for messages."""
    cls = type(value)
    return (
        cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
    )


def as_text(value: Any) -> str:
    """Returns an agent's answer as text: strings unchanged, models and containers as JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode("utf-8", "replace")
    if (
        hasattr(value, "model_dump")
        or dataclasses.is_dataclass(value)
        or isinstance(value, (dict, list, tuple))
    ):
        return json.dumps(value, default=jsonable, ensure_ascii=False)
    return str(value)


def jsonable(value: Any) -> Any:
    """The `default` of json.dumps(): models and dataclasses as objects, sets as lists, others as
    text.
    """
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, (set, frozenset)):
        return list(value)
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode("utf-8", "replace")
    return str(value)
