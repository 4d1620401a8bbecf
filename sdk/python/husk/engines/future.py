# SPDX-License-Identifier: Apache-2.0
"""Futures of calls: the results of `tool._remote_func.remote(...)` on the local engine.

The calls run on an event loop in a separate thread, so that code with and without an event loop can
start them.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from typing import Any, Coroutine, Generator, Optional, Protocol

from husk.engines.engine import ToolSpec


class ToolFuture(concurrent.futures.Future[Any]):
    """The future result of a call; wait for it with `future.result()` or `await future`."""

    def __await__(self) -> Generator[Any, None, Any]:
        return asyncio.wrap_future(self).__await__()


class Background:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="husk-tool-calls", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs; it does not after a fork."""
        return self._thread.is_alive()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()

    def start(self, call: Coroutine[Any, Any, Any]) -> ToolFuture:
        """Starts a call; cancelling the future ends the call."""
        future = ToolFuture()
        task: Optional[asyncio.Task[Any]] = None

        def begin() -> None:
            nonlocal task
            task = self._loop.create_task(call)
            task.add_done_callback(lambda done: _copy(done, future))

        def cancelled(_: concurrent.futures.Future[Any]) -> None:
            if future.cancelled():
                self._loop.call_soon_threadsafe(lambda: task.cancel() if task else None)

        self._loop.call_soon_threadsafe(begin)
        future.add_done_callback(cancelled)
        return future

    def stop(self) -> None:
        """Ends the thread, after the end of the workers has failed the running calls."""

        async def finish() -> None:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            if others:
                await asyncio.wait(others, timeout=5.0)
            self._loop.stop()

        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(lambda: self._loop.create_task(finish()))
            self._thread.join(10.0)


def _copy(task: asyncio.Task[Any], future: ToolFuture) -> None:
    if task.cancelled():
        future.cancel()
    elif future.set_running_or_notify_cancel():
        error = task.exception()
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(task.result())


class Caller(Protocol):
    """Anything that runs calls, such as an engine."""

    async def call(self, spec: ToolSpec, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs the tool and returns its result."""


class RemoteFunction:
    """A tool of the local engine with the interface of a Ray remote function."""

    def __init__(self, engine: Caller, background: Background, spec: ToolSpec) -> None:
        self._engine = engine
        self._background = background
        self._spec = spec

    def remote(self, *args: Any, **kwargs: Any) -> ToolFuture:
        """Starts a call and returns immediately."""
        return self._background.start(self._engine.call(self._spec, args, kwargs))
