# SPDX-License-Identifier: Apache-2.0
"""Many tool calls at once: `execute_tools` for a list of calls, `batch_tool` for one tool over many
inputs.

Both are plain functions that block until all calls have ended; frameworks run such a tool on a
thread. At most IN_FLIGHT calls run at the same time.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import threading
from typing import Any, Callable, Optional, Protocol, Sequence, TypedDict

from husk.errors import text_of
from husk.tools.decorator import tool
from husk.tools.wrap import unwrap

__all__ = ["BatchResult", "BatchTool", "batch_tool", "execute_tools"]

IN_FLIGHT = 256

# A tool and a dict of its arguments, which is checked on the call.
Call = tuple[Any, Any]


class BatchResult(TypedDict):
    """The result of a batch function; the lists have one entry per input, in order."""

    results: list[Any]
    errors: list[Optional[str]]
    tool_name: str
    count: int


class BatchFunction(Protocol):
    """The type of the function that `batch_tool` returns."""

    __name__: str
    name: str
    description: str

    def __call__(self, tool_name: str, tool_inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """Runs the tool of that name over all inputs."""


def execute_tools(calls: Sequence[Call], parallel: bool = False) -> list[Any]:
    """Runs a list of calls and returns their results in the same order.

    Args:
        calls: pairs of a tool (or any function) and a dict of its arguments.
        parallel: run them at the same time; else one after another, up to the first that raises.

    Raises:
        Exception: the exception of a call; with `parallel` that of the first in order, after all
            calls have ended.
    """
    outcomes = _run([(_runnable(target), kwargs) for target, kwargs in calls], parallel)
    for outcome in outcomes:
        if isinstance(outcome, _Failure):
            raise outcome.error
    return outcomes


class BatchTool:
    """A callable that runs one of its tools over many inputs at the same time; an agent can use it
    as a tool.

    Calling it with `tool_name` and `tool_inputs` returns a dict, see BatchResult. An input that
    fails has the result None and a text in `errors`; it does not affect the others.

    Args:
        tools: tools, plain functions or tool objects of a framework.
        name: name of the new tool.
        description: its docstring; by default one that names the tools.

    Raises:
        ValueError: two tools have the same name.
    """

    def __init__(
        self, tools: Sequence[Any], name: str = "batch", description: Optional[str] = None
    ) -> None:
        self.tools: dict[str, Callable[..., Any]] = {}
        for target in map(_runnable, tools):
            if target.__name__ in self.tools:
                raise ValueError(f"two tools of the batch have the name {target.__name__!r}")
            self.tools[target.__name__] = target
        self.name = self.__name__ = self.__qualname__ = name
        self.description = self.__doc__ = description or (
            "Run one tool over many inputs at the same time.\n\n"
            "Args:\n"
            f"    tool_name: which tool to run, one of: {self._names()}.\n"
            "    tool_inputs: one object of arguments for each call.\n"
        )

    def _names(self) -> str:
        return ", ".join(self.tools) or "none"

    # Frameworks read this annotation, and some cannot read a TypedDict.
    def __call__(self, tool_name: str, tool_inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """Runs the tool of that name over all inputs."""
        target = self.tools.get(tool_name)
        count = len(tool_inputs)
        if target is None:
            missing = f"Tool '{tool_name}' not found; available: {self._names()}"
            outcomes: list[Any] = [_Failure(missing)] * count
        else:
            outcomes = _run([(target, inputs) for inputs in tool_inputs], parallel=True)
        return {
            "results": [None if isinstance(o, _Failure) else o for o in outcomes],
            "errors": [o.text if isinstance(o, _Failure) else None for o in outcomes],
            "tool_name": tool_name,
            "count": count,
        }

    def __repr__(self) -> str:
        return f"BatchTool({self.name!r}, tools: {self._names()})"


def batch_tool(
    tools: Sequence[Any], name: str = "batch", description: Optional[str] = None
) -> BatchFunction:
    """Returns a function that runs one of the tools over many inputs at the same time; an agent can
    use it as a tool.

    Args:
        tools: tools, plain functions or tool objects of a framework.
        name: name of the new function.
        description: its docstring; by default one that names the tools.

    Returns:
        A function of `tool_name` and `tool_inputs`, see BatchTool, which is the same as a class:
        some frameworks accept only functions.

    Raises:
        ValueError: two tools have the same name.
    """
    made = BatchTool(tools, name, description)

    def batch(tool_name: str, tool_inputs: list[dict[str, Any]]) -> dict[str, Any]:
        return made(tool_name, tool_inputs)

    dressed: Any = batch
    dressed.__name__ = dressed.__qualname__ = dressed.name = made.name
    dressed.__doc__ = dressed.description = made.description
    function: BatchFunction = dressed
    return function


class _Failure:
    """An exception in place of a result, or only its text."""

    def __init__(self, error: Any) -> None:
        self.error: Exception = error if isinstance(error, Exception) else ValueError(error)
        self.text = (
            f"{type(error).__name__}: {text_of(error)}" if error is self.error else str(error)
        )


def _runnable(target: Any) -> Any:
    """Returns a callable; converts tool objects of frameworks to tools."""
    if unwrap(target) is not None:
        return tool(target)
    if not callable(target):
        raise TypeError(f"not a tool and not callable: {type(target).__name__}")
    return target


async def _call(target: Any, kwargs: Any) -> Any:
    if not isinstance(kwargs, dict):
        raise TypeError(f"the arguments must be a dict, not {type(kwargs).__name__}")
    if inspect.iscoroutinefunction(target):
        return await target(**kwargs)
    result = await asyncio.to_thread(target, **kwargs)
    return await result if inspect.isawaitable(result) else result


async def _work(calls: Sequence[Call], parallel: bool) -> list[Any]:
    outcomes: list[Any] = [None] * len(calls)
    numbers = iter(range(len(calls)))

    async def worker() -> None:
        for number in numbers:
            try:
                outcomes[number] = await _call(*calls[number])
            except Exception as error:
                outcomes[number] = _Failure(error)
                if not parallel:
                    return

    width = min(IN_FLIGHT, len(calls)) if parallel else 1
    await asyncio.gather(*(worker() for _ in range(width)))
    return outcomes


def _run(calls: Sequence[Call], parallel: bool) -> list[Any]:
    """Runs calls on a new event loop, because the caller's thread may already run one."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_work(calls, parallel))
    future: concurrent.futures.Future[list[Any]] = concurrent.futures.Future()

    def run() -> None:
        try:
            future.set_result(asyncio.run(_work(calls, parallel)))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="husk-batch", daemon=True).start()
    return future.result()
