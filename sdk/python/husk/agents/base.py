# SPDX-License-Identifier: Apache-2.0
"""Agents without a framework: a base class and a protocol.

`Agent` answers text with text and may call its tools. `AgentProtocol` answers an object with an
object. `husk.serve` serves both.
"""

from __future__ import annotations

import abc
import asyncio
import inspect
from typing import Any, ClassVar, Protocol, Sequence, runtime_checkable


@runtime_checkable
class AgentProtocol(Protocol):
    """An agent that takes an object and returns one; served at `POST {prefix}/chat`.

    `run` may be a plain or an async method. An agent that can also stream has `stream_text(data)`
    or `stream_events(data)`: generators, plain or async, of texts or event objects.
    """

    def run(self, data: dict[str, Any]) -> dict[str, Any]:
        """Answers one request."""


class Agent(abc.ABC):
    """Base class for agents: derive from it, list the tools, and define `run`.

        class Calculator(husk.Agent):
            tools = [add]

            async def run(self, query: str) -> str:
                return str(await self.call_tool("add", a=1, b=2))

    `run` may take a second argument `session_id`. An agent that can stream also has
    `stream_text(query)`, an async generator of texts, or `stream_events(query)`, an async generator
    of event objects such as `{"type": "text", "content": "..."}`; without them, requests for a
    stream are rejected. `run_stream` and `run_stream_events` are other names for them.
    """

    tools: ClassVar[Sequence[Any]] = []

    @abc.abstractmethod
    async def run(self, query: str) -> str:
        """Answers one request."""

    def get_tool_names(self) -> list[str]:
        """Returns the names of the tools, in order."""
        return [tool_name(tool) for tool in self.tools]

    def get_tool_descriptions(self) -> dict[str, str]:
        """Returns the descriptions of the tools, by name."""
        return {tool_name(tool): tool_description(tool) for tool in self.tools}

    async def call_tool(self, name: str, **kwargs: Any) -> Any:
        """Calls a tool by name and returns its result.

        A plain function runs on a thread, so that it does not block other requests.

        Raises:
            ValueError: there is no such tool; the message lists the tools.
        """
        return await _call(self._tool(name), kwargs)

    async def call_tools_parallel(self, calls: Sequence[tuple[str, dict[str, Any]]]) -> list[Any]:
        """Calls several tools at the same time: `[("add", {"a": 1, "b": 2}), ...]`.

        Returns the results in the order of the calls. All names are checked before the first call
        starts; the first exception of a tool is raised.
        """
        tools = [(self._tool(name), kwargs) for name, kwargs in calls]
        return list(await asyncio.gather(*(_call(tool, kwargs) for tool, kwargs in tools)))

    def _tool(self, name: str) -> Any:
        for tool in self.tools:
            if tool_name(tool) == name:
                return tool
        known = ", ".join(self.get_tool_names()) or "none"
        raise ValueError(f"{type(self).__name__} has no tool {name!r}; available: {known}")


def tool_name(tool: Any) -> str:
    """Returns the name of a tool: of a function, or of a framework's tool object."""
    for attribute in ("__name__", "name"):
        value = getattr(tool, attribute, None)
        if isinstance(value, str) and value:
            return value
    return type(tool).__name__


def tool_description(tool: Any) -> str:
    """Returns a tool's description: its metadata, its own field, its docstring, or "Calls
    <name>".
    """
    metadata = getattr(tool, "_tool_metadata", None)
    found = metadata.get("description") if isinstance(metadata, dict) else None
    found = found or getattr(tool, "description", None)
    if not found and inspect.isroutine(tool):
        found = inspect.getdoc(tool)
    return found if isinstance(found, str) and found else f"Calls {tool_name(tool)}"


async def _call(tool: Any, kwargs: dict[str, Any]) -> Any:
    """Calls a function, a husk tool or a tool object of LangChain, Pydantic AI or Agno."""
    if not inspect.isroutine(tool) and hasattr(tool, "ainvoke"):
        return await tool.ainvoke(kwargs)
    function = tool
    if not callable(tool):
        function = getattr(tool, "function", None) or getattr(tool, "entrypoint", None)
    if not callable(function):
        raise TypeError(
            f"the tool {tool_name(tool)!r} of type {type(tool).__name__} cannot be called"
        )
    if inspect.iscoroutinefunction(function) or getattr(tool, "_rayai_tool", False):
        return await function(**kwargs)
    result = await asyncio.to_thread(function, **kwargs)
    return await result if inspect.isawaitable(result) else result
