# SPDX-License-Identifier: Apache-2.0
"""AsyncSandbox: Sandbox for asyncio.

async with AsyncSandbox() as s:
    print((await s.run("1 + 1")).text)
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import aclosing
from typing import Any, Concatenate, ParamSpec, TypeVar

from husk.calls.call import Call
from husk.client.aio import AsyncClient
from husk.client.base import named_as
from husk.client.drive import Flow, ended
from husk.errors import ConflictError, SessionNotFoundError
from husk.results.events import Event
from husk.results.result import Result
from husk.sandbox import files as file_ops
from husk.sandbox import operations as ops
from husk.sandbox.base import SandboxBase, StreamBase, leaving
from husk.sandbox.state import Held

P = ParamSpec("P")
T = TypeVar("T")


def awaiting(
    build: Callable[Concatenate[Held, P], Call[T] | Flow[T]],
) -> Callable[Concatenate[_Awaiting, P], Coroutine[Any, Any, T]]:
    """Return a method of AsyncSandbox or AsyncFiles that executes the operation."""

    async def method(self: _Awaiting, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if self._held.session is None:
            await self._begin()
        return await self._do(build(self._held, *args, **kwargs))

    return named_as(build, method, skip=1)


async def _to_its_end(step: Coroutine[Any, Any, object]) -> None:
    """Await a step to its end; raise a cancellation only after it."""
    task = asyncio.ensure_future(step)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


class _Awaiting:
    _held: Held
    _client: AsyncClient

    async def _begin(self) -> None:
        raise NotImplementedError

    async def _do(self, operation: Call[T] | Flow[T]) -> T:
        if isinstance(operation, Call):
            return await self._client.send(operation)
        return await self._client.drive(operation)


class AsyncFiles(_Awaiting):
    """The files of an AsyncSandbox: the methods of Files, to be awaited."""

    def __init__(self, owner: AsyncSandbox) -> None:
        self._client, self._held, self._begin = owner._client, owner._held, owner._begin  # type: ignore[method-assign]

    async def _do(self, operation: Call[T] | Flow[T]) -> T:
        return await self._client.drive(ops.explained(self._held, operation))

    read = awaiting(file_ops.read)
    read_text = awaiting(file_ops.read_text)
    write = awaiting(file_ops.write)
    upload = awaiting(file_ops.upload)
    download = awaiting(file_ops.download)
    list = awaiting(file_ops.list_all)
    stat = awaiting(file_ops.stat)
    exists = awaiting(file_ops.exists)
    move = awaiting(file_ops.move)
    delete = awaiting(file_ops.delete)
    mkdir = awaiting(file_ops.mkdir)
    export_tar = awaiting(file_ops.export_tar)
    import_tar = awaiting(file_ops.import_tar)


class AsyncStream(StreamBase):
    """Like Stream, for `async for`."""

    _events: AsyncGenerator[Event, None]

    async def _follow(
        self, sandbox: AsyncSandbox, body: dict[str, Any], key: str | None
    ) -> AsyncGenerator[Event, None]:
        await sandbox._begin()
        self._watch = await sandbox._do(ops.watch(sandbox._held, body, key))
        try:
            async with aclosing(sandbox._client.watch(self._watch)) as events:
                async for event in events:
                    yield event
        except (SessionNotFoundError, ConflictError) as e:
            await sandbox._do(ops.explain(sandbox._held, e))

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._events

    async def text(self) -> AsyncIterator[str]:
        """Iterate over the pieces of standard output."""
        async for event in self._events:
            if event.kind == "stdout":
                yield event.text

    async def result(self) -> Result:
        """The result, after the rest of the stream has been read."""
        async for _ in self._events:
            pass
        return ended(self._watch)

    async def close(self) -> None:
        """Stop reading. The run continues."""
        await self._events.aclose()


class AsyncSandbox(SandboxBase[AsyncClient, AsyncStream], _Awaiting):
    """Like Sandbox, for asyncio: the same arguments, and the same methods to be awaited.

    `async with`, `await start()` or the first use creates the session. The constructor finds or
    starts the server.
    """

    _client_class = AsyncClient
    _stream_class = AsyncStream

    def _open(self) -> None:
        self._starting = asyncio.Lock()
        self.files = AsyncFiles(self)

    @classmethod
    async def attach(cls, session_id: str, **arguments: Any) -> AsyncSandbox:
        """Attach to an existing session. This object does not end it.

        Args:
            session_id: the session.
            arguments: url, socket, headers, api_key, client, durable, as for Sandbox.
        """
        sandbox = cls(session_id=session_id, **arguments)
        try:
            return await sandbox.start()
        except BaseException:
            await sandbox.close()
            raise

    async def _begin(self) -> None:
        async with self._starting:  # several tasks may start it at once
            # close() needs the id to end the session, so a cancellation waits for the answer.
            await _to_its_end(self._do(ops.start(self._held)))

    async def start(self) -> AsyncSandbox:
        """Create the session now instead of on first use."""
        await self._begin()
        return self

    async def close(self) -> None:
        """End the session if this object created it, and close the connections. A second call does
        nothing.
        """
        try:
            if self._held.is_mine and not self._client.is_closed:
                # An interrupted termination would not be retried.
                await _to_its_end(self._do(ops.terminate(self._held)))
        finally:
            if self._has_own_client:
                await self._client.close()

    async def __aenter__(self) -> AsyncSandbox:
        try:
            return await self.start()
        except BaseException:
            await self.close()
            raise

    async def __aexit__(
        self, kind: object = None, error: object = None, trace: object = None
    ) -> None:
        with leaving(self._client, error):
            await self.close()

    run = awaiting(ops.run)
    shell = awaiting(ops.shell)
    handler = awaiting(ops.handler)
    interrupt = awaiting(ops.interrupt)
    reset = awaiting(ops.reset)
    contexts = awaiting(ops.contexts)
    checkpoint = awaiting(ops.checkpoint)
    restore = awaiting(ops.restore)
    branch = awaiting(ops.branch)
    info = awaiting(ops.info)
    stats = awaiting(ops.stats)
    receipt = awaiting(ops.receipt)
    executions = awaiting(ops.executions)
    extend = awaiting(ops.extend)
    terminate = awaiting(ops.terminate)
