# SPDX-License-Identifier: Apache-2.0
"""AsyncClient: the methods of Client, to be awaited."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from typing import Any, Concatenate, ParamSpec, TypeVar

from husk.calls import files
from husk.calls import server as srv
from husk.calls import sessions as ses
from husk.calls.call import Call
from husk.client.base import ClientBase, named_as
from husk.client.drive import Flow, Watch, ended
from husk.http.transport import AsyncTransport
from husk.http.wire import Answer, Broken
from husk.results.events import Event

P = ParamSpec("P")
T = TypeVar("T")


def awaiting(
    build: Callable[P, Call[T]],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    """Return a method of AsyncClient that sends the described call."""

    async def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.send(build(*args, **kwargs))

    return named_as(build, method)


class AsyncClient(ClientBase[AsyncTransport]):
    """All operations of a server, for asyncio: the methods of Client, to be awaited.

    Args:
        url: the server, as for Client.
        socket: path of its unix socket, instead of url.
        headers: sent with every request, for a proxy in front of the server.
        api_key: sent as `Authorization: Bearer ...`.
    """

    _transport_class = AsyncTransport

    async def send(self, call: Call[T]) -> T:
        """Send a call, retry it if that is safe, and return its value."""
        attempts = self.attempts(call.can_repeat)
        while True:
            try:
                answer = await self._once(call)
                self.has_worked = True
                pause = attempts.answered(answer)
                if pause is None:
                    return call.value(answer)
            except Broken as why:
                pause = attempts.broken(why)
            await asyncio.sleep(pause)
            if call.guard is not None:
                call.guard.check(await self.send(call.guard.look))

    async def _once(self, call: Call[Any]) -> Answer:
        if call.request.pieces is None and call.sink is None:
            return await self.transport.exchange(call.request)
        async with self.transport.stream(call.request) as (status, headers, pieces):
            if call.sink is None or status >= 300:
                return Answer(status, headers, b"".join([piece async for piece in pieces]))
            length = headers.get("content-length")
            call.sink.begin(int(length) if length else None)
            async for piece in pieces:
                call.sink.take(piece)
            return Answer(status, headers, b"")

    async def watch(self, watch: Watch) -> AsyncGenerator[Event, None]:
        """Yield the events of an execution as they arrive; resume after a broken connection."""
        watch.attempts = self.attempts(watch.call.can_repeat)
        while not watch.is_over:
            try:
                async with self.transport.stream(watch.request()) as (status, headers, pieces):
                    if status != 200:
                        body = b"".join([piece async for piece in pieces])
                        watch.refused(Answer(status, headers, body))
                    async for piece in pieces:
                        for event in watch.feed(piece):
                            yield event
                if not watch.is_over:
                    raise Broken("the stream ended before the execution", is_sent=True)
            except Broken as why:
                await asyncio.sleep(watch.attempts.broken(why))
                if watch.call.guard is not None:
                    watch.call.guard.check(await self.send(watch.call.guard.look))

    async def drive(self, flow: Flow[T]) -> T:
        """Execute the steps of a flow and return its value."""
        value: Any = None
        try:
            step = next(flow)
            while True:
                try:
                    value = await self._step(step)
                except BaseException as e:  # a flow may clean up when it is cancelled
                    step = flow.throw(e)
                else:
                    step = flow.send(value)
        except StopIteration as end:
            result: T = end.value
            return result

    async def _step(self, step: Call[Any] | Watch) -> Any:
        if isinstance(step, Call):
            return await self.send(step)
        async with aclosing(self.watch(step)) as events:
            async for event in events:
                waiting = step.on_event(event) if step.on_event is not None else None
                if inspect.isawaitable(waiting):
                    await waiting
        return ended(step)

    def events(self, execution_id: str, after: str | None = None) -> AsyncGenerator[Event, None]:
        """Follow an execution as it runs, or read its events again.

        Args:
            execution_id: the execution.
            after: id of the last event already received.
        """
        call = ses.execution_events(execution_id, after)
        return self.watch(Watch(call, execution_id=execution_id, after=after or ""))

    async def close(self) -> None:
        """Close the connections. Sessions continue."""
        self.is_closed = True
        await self.transport.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    create_session = awaiting(ses.create_session)
    get_session = awaiting(ses.get_session)
    list_sessions = awaiting(ses.list_sessions)
    terminate_session = awaiting(ses.terminate_session)
    purge_session = awaiting(ses.purge_session)
    extend_session = awaiting(ses.extend_session)
    session_stats = awaiting(ses.session_stats)
    session_receipt = awaiting(ses.session_receipt)
    interrupt = awaiting(ses.interrupt)
    reset = awaiting(ses.reset)
    list_contexts = awaiting(ses.list_contexts)
    create_context = awaiting(ses.create_context)
    checkpoint = awaiting(ses.checkpoint)
    restore = awaiting(ses.restore)
    branch = awaiting(ses.branch)
    execute = awaiting(ses.execute)
    execute_sync = awaiting(ses.execute_sync)
    get_execution = awaiting(ses.get_execution)
    execution_status = awaiting(ses.execution_status)
    execution_result = awaiting(ses.execution_result)
    cancel_execution = awaiting(ses.cancel_execution)
    withdraw = awaiting(ses.withdraw)
    list_executions = awaiting(ses.list_executions)
    latest_status = awaiting(ses.latest_status)
    latest_result = awaiting(ses.latest_result)
    list_files = awaiting(files.list_files)
    read_file = awaiting(files.read_file)
    write_file = awaiting(files.write_file)
    stat_file = awaiting(files.stat_file)
    delete_file = awaiting(files.delete_file)
    make_directory = awaiting(files.make_directory)
    move_file = awaiting(files.move_file)
    create_template = awaiting(srv.create_template)
    update_template = awaiting(srv.update_template)
    list_templates = awaiting(srv.list_templates)
    get_template = awaiting(srv.get_template)
    delete_template = awaiting(srv.delete_template)
    list_containers = awaiting(srv.list_containers)
    get_container = awaiting(srv.get_container)
    container_logs = awaiting(srv.container_logs)
    pool = awaiting(srv.pool)
    health = awaiting(srv.health)
    version = awaiting(srv.version)
