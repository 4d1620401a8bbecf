# SPDX-License-Identifier: Apache-2.0
"""Agents without a framework: functions, `husk.Agent` and `AgentProtocol`.

Async functions run on the event loop, plain ones on a thread, so that they do not block other
requests. Generator functions are agents that stream: they yield texts, or event objects, of which
those of type "text" count as text.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from typing import Any, AsyncGenerator, AsyncIterator, Awaitable, Callable, Optional, cast

from husk.agents.kinds import Adapter, as_text
from husk.agents.threads import Threads

_threads: Optional[Threads] = None

_END = object()


def use_threads(threads: Threads) -> None:
    """Sets the threads for calls on this event loop."""
    global _threads
    if _threads is not None:
        _threads.close()
    _threads = threads


def _pool() -> Threads:
    if _threads is None or _threads.loop is not asyncio.get_running_loop():
        use_threads(Threads())
    assert _threads is not None
    return _threads


def adapt_callable(agent: Callable[..., Any]) -> Adapter:
    """A function of the query, or of the query and `session_id`."""
    adapter = Adapter("callable")
    if _is_generator(agent):
        stream = _stream(agent)
        adapter.run = lambda query, session: _joined(stream(query, session))
        adapter.stream_text = lambda query, session: _texts(stream(query, session))
        adapter.stream_events = lambda query, session: _events(stream(query, session))
    else:
        call = _caller(agent)

        async def run(query: str, session_id: str) -> str:
            return as_text(await call(query, session_id))

        adapter.run = run
    return adapter


def adapt_agent(agent: Any) -> Adapter:
    """An instance of `husk.Agent`."""
    adapter = adapt_callable(agent.run)
    adapter.framework = "husk"
    text, events = _streams_of(agent)
    adapter.stream_text = text or adapter.stream_text
    adapter.stream_events = events or adapter.stream_events
    return adapter


def adapt_protocol(agent: Any) -> Adapter:
    """An object with `run(data)` that returns an object."""
    call = _caller(agent.run)

    async def chat(data: dict[str, Any], session_id: str) -> dict[str, Any]:
        result = await call(data, session_id)
        if not isinstance(result, dict):
            raise TypeError(f"run() must return a dict, not {type(result).__name__}")
        return result

    text, events = _streams_of(agent)
    return Adapter("husk", chat=chat, chat_text=text, chat_events=events)


Texts = Callable[[Any, str], AsyncGenerator[str, None]]
Events = Callable[[Any, str], AsyncGenerator[dict[str, Any], None]]


def _streams_of(agent: Any) -> tuple[Optional[Texts], Optional[Events]]:
    text: Optional[Texts] = None
    events: Optional[Events] = None
    # The second names are those of the rayai API.
    texts = getattr(agent, "stream_text", None) or getattr(agent, "run_stream", None)
    if callable(texts):
        stream_text = _stream(texts)
        text = lambda query, session: _texts(stream_text(query, session))  # noqa: E731
    objects = getattr(agent, "stream_events", None) or getattr(agent, "run_stream_events", None)
    if callable(objects):
        stream_events = _stream(objects)
        events = lambda query, session: _events(stream_events(query, session))  # noqa: E731
    return text, events


def _caller(function: Callable[..., Any]) -> Callable[[Any, str], Awaitable[Any]]:
    """Wraps any function as an awaitable of (query, session_id)."""
    with_session = _takes_session(function)
    if _is_async(function):
        if with_session:
            return cast(Callable[[Any, str], Awaitable[Any]], function)
        return lambda query, session_id: cast(Awaitable[Any], function(query))

    async def call(query: Any, session_id: str) -> Any:
        args = (query, session_id) if with_session else (query,)
        result = await _pool().call(function, *args)
        return await result if inspect.isawaitable(result) else result

    return call


def _stream(function: Callable[..., Any]) -> Callable[[Any, str], AsyncIterator[Any]]:
    """Does the same for generator functions, and for functions that return an iterator."""
    with_session = _takes_session(function)
    # Calling a generator function runs no code before the first item is requested.
    at_once = _is_async(function) or _is_generator(function)

    async def stream(query: Any, session_id: str) -> AsyncIterator[Any]:
        args = (query, session_id) if with_session else (query,)
        context = contextvars.copy_context()
        if at_once:
            items = function(*args)
        else:
            items = await _pool().call(function, *args, context=context)
        if inspect.isawaitable(items):
            items = await items
        if hasattr(items, "__aiter__"):
            async for item in items:
                yield item
            return
        iterator = iter(items)
        while True:
            item = await _pool().call(next, iterator, _END, context=context)
            if item is _END:
                return
            yield item

    return stream


async def _joined(items: AsyncIterator[Any]) -> str:
    return "".join([text async for text in _texts(items)])


async def _texts(items: AsyncIterator[Any]) -> AsyncGenerator[str, None]:
    async for item in items:
        if not isinstance(item, dict):
            yield as_text(item)
        elif item.get("type") == "text":
            yield as_text(item.get("content"))


async def _events(items: AsyncIterator[Any]) -> AsyncGenerator[dict[str, Any], None]:
    async for item in items:
        yield item if isinstance(item, dict) else {"type": "text", "content": as_text(item)}


def _is_async(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)
    )


def _is_generator(function: Any) -> bool:
    call = getattr(function, "__call__", None)
    return any(
        inspect.isgeneratorfunction(f) or inspect.isasyncgenfunction(f) for f in (function, call)
    )


def _takes_session(function: Any) -> bool:
    """Returns whether a function has a second argument, or one with the name `session_id`."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return False
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len(places) >= 2 and (
        places[1].name == "session_id" or places[1].default is inspect.Parameter.empty
    )
