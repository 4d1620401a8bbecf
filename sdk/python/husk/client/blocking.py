# SPDX-License-Identifier: Apache-2.0
"""Client and AsyncClient: every operation of /api/v1 on any session. Sandbox is the comfortable
form for one session.

Both classes have the same methods, made from the same descriptions; they differ only in how they
wait.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import aclosing, closing
from typing import Any, Concatenate, ParamSpec, TypeVar

from husk.calls import files
from husk.calls import server as srv
from husk.calls import sessions as ses
from husk.calls.call import Call
from husk.client.drive import Attempts, Flow, Watch, ended
from husk.errors import SandboxClosedError
from husk.http.transport import AsyncTransport, Transport
from husk.http.wire import Answer, Broken
from husk.locate import Address, server
from husk.results.events import Event

P = ParamSpec("P")
T = TypeVar("T")


def blocking(build: Callable[P, Call[T]]) -> Callable[Concatenate[Client, P], T]:
    """A method of Client that sends what build describes."""

    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.send(build(*args, **kwargs))

    return named_as(build, method)


def awaiting(
    build: Callable[P, Call[T]],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    """A method of AsyncClient that sends what build describes."""

    async def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.send(build(*args, **kwargs))

    return named_as(build, method)


F = TypeVar("F", bound=Callable[..., Any])


def named_as(build: Callable[..., Any], method: F, skip: int = 0) -> F:
    """Give a made method the name, text and arguments of its description, for help() and
    editors.
    """
    functools.update_wrapper(method, build)
    signature = inspect.signature(build)
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    arguments = list(signature.parameters.values())[skip:]
    returns = signature.return_annotation
    for outer in ("Call[", "Flow["):
        if isinstance(returns, str) and returns.startswith(outer):
            returns = returns[len(outer) : -1]
    method.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[own, *arguments], return_annotation=returns
    )
    return method


class _Base:
    """What both clients have in common."""

    def __init__(
        self, url: str | None = None, *, socket: str | os.PathLike[str] | None = None
    ) -> None:
        found = server(url, socket)
        assert found is not None  # it was found, started, or there was an exception
        self.address: Address = found
        self.has_worked = False
        self.is_closed = False

    def attempts(self, can_repeat: bool) -> Attempts:
        """The attempts for a new request."""
        if self.is_closed:
            raise SandboxClosedError("This object was closed.")
        return Attempts(can_repeat, self.address, self.has_worked)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.address)!r})"


class Client(_Base):
    """All operations of a server, for code that waits by blocking. Threads may share it.

    Args:
        url: the server, as `http://host:port`, `https://host` or `unix:///path`. Without it and
            without socket one is looked for, and started for the life of this process when there is
            none; see husk.locate.
        socket: path of its unix socket, instead of url.
    """

    def __init__(
        self, url: str | None = None, *, socket: str | os.PathLike[str] | None = None
    ) -> None:
        super().__init__(url, socket=socket)
        self.transport = Transport(self.address)

    def send(self, call: Call[T]) -> T:
        """Send a call, again where that is safe, and return its value."""
        attempts = self.attempts(call.can_repeat)
        while True:
            try:
                answer = self._once(call)
                self.has_worked = True
                pause = attempts.answered(answer)
                if pause is None:
                    return call.value(answer)
            except Broken as why:
                pause = attempts.broken(why)
            time.sleep(pause)
            if call.guard is not None:
                call.guard.check(self.send(call.guard.look))

    def _once(self, call: Call[Any]) -> Answer:
        if call.request.pieces is None and call.sink is None:
            return self.transport.exchange(call.request)
        with self.transport.stream(call.request) as (status, headers, pieces):
            if call.sink is None or status >= 300:
                return Answer(status, headers, b"".join(pieces))
            length = headers.get("content-length")
            call.sink.begin(int(length) if length else None)
            for piece in pieces:
                call.sink.take(piece)
            return Answer(status, headers, b"")

    def watch(self, watch: Watch) -> Generator[Event, None, None]:
        """The events of an execution as they come; goes on where it was when the connection
        breaks.
        """
        watch.attempts = self.attempts(watch.call.can_repeat)
        while not watch.is_over:
            try:
                with self.transport.stream(watch.request()) as (status, headers, pieces):
                    if status != 200:
                        watch.refused(Answer(status, headers, b"".join(pieces)))
                    for piece in pieces:
                        yield from watch.feed(piece)
                if not watch.is_over:
                    raise Broken("the stream ended before the execution", is_sent=True)
            except Broken as why:
                time.sleep(watch.attempts.broken(why))
                if watch.call.guard is not None:
                    watch.call.guard.check(self.send(watch.call.guard.look))

    def drive(self, flow: Flow[T]) -> T:
        """Do the steps of a flow and return what it returns."""
        value: Any = None
        try:
            step = next(flow)
            while True:
                try:
                    value = self._step(step)
                except BaseException as e:  # a flow may have something to do on Ctrl-C as well
                    step = flow.throw(e)
                else:
                    step = flow.send(value)
        except StopIteration as end:
            result: T = end.value
            return result

    def _step(self, step: Call[Any] | Watch) -> Any:
        if isinstance(step, Call):
            return self.send(step)
        with closing(self.watch(step)) as events:
            for event in events:
                if step.on_event is not None:
                    step.on_event(event)
        return ended(step)

    def events(self, execution_id: str, after: str | None = None) -> Generator[Event, None, None]:
        """Follow an execution as it runs, or read again what it reported.

        Args:
            execution_id: the execution.
            after: id of the last event that is known already.
        """
        call = ses.execution_events(execution_id, after)
        return self.watch(Watch(call, execution_id=execution_id, after=after or ""))

    def close(self) -> None:
        """Close the connections. Sessions go on."""
        self.is_closed = True
        self.transport.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    create_session = blocking(ses.create_session)
    get_session = blocking(ses.get_session)
    list_sessions = blocking(ses.list_sessions)
    terminate_session = blocking(ses.terminate_session)
    purge_session = blocking(ses.purge_session)
    extend_session = blocking(ses.extend_session)
    session_stats = blocking(ses.session_stats)
    session_receipt = blocking(ses.session_receipt)
    interrupt = blocking(ses.interrupt)
    reset = blocking(ses.reset)
    list_contexts = blocking(ses.list_contexts)
    checkpoint = blocking(ses.checkpoint)
    restore = blocking(ses.restore)
    branch = blocking(ses.branch)
    execute = blocking(ses.execute)
    execute_sync = blocking(ses.execute_sync)
    get_execution = blocking(ses.get_execution)
    execution_status = blocking(ses.execution_status)
    execution_result = blocking(ses.execution_result)
    cancel_execution = blocking(ses.cancel_execution)
    withdraw = blocking(ses.withdraw)
    list_executions = blocking(ses.list_executions)
    latest_status = blocking(ses.latest_status)
    latest_result = blocking(ses.latest_result)
    list_files = blocking(files.list_files)
    read_file = blocking(files.read_file)
    write_file = blocking(files.write_file)
    stat_file = blocking(files.stat_file)
    delete_file = blocking(files.delete_file)
    make_directory = blocking(files.make_directory)
    move_file = blocking(files.move_file)
    create_template = blocking(srv.create_template)
    update_template = blocking(srv.update_template)
    list_templates = blocking(srv.list_templates)
    get_template = blocking(srv.get_template)
    delete_template = blocking(srv.delete_template)
    list_containers = blocking(srv.list_containers)
    get_container = blocking(srv.get_container)
    container_logs = blocking(srv.container_logs)
    pool = blocking(srv.pool)
    health = blocking(srv.health)
    version = blocking(srv.version)


class AsyncClient(_Base):
    """All operations of a server, for asyncio: the methods of Client, to be awaited.

    Args:
        url: the server; as of Client.
        socket: path of its unix socket, instead of url.
    """

    def __init__(
        self, url: str | None = None, *, socket: str | os.PathLike[str] | None = None
    ) -> None:
        super().__init__(url, socket=socket)
        self.transport = AsyncTransport(self.address)

    async def send(self, call: Call[T]) -> T:
        """Send a call, again where that is safe, and return its value."""
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
        """The events of an execution as they come; goes on where it was when the connection
        breaks.
        """
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
        """Do the steps of a flow and return what it returns."""
        value: Any = None
        try:
            step = next(flow)
            while True:
                try:
                    value = await self._step(step)
                except (
                    BaseException
                ) as e:  # a flow may have something to do when it is cancelled as well
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
        """Follow an execution as it runs, or read again what it reported.

        Args:
            execution_id: the execution.
            after: id of the last event that is known already.
        """
        call = ses.execution_events(execution_id, after)
        return self.watch(Watch(call, execution_id=execution_id, after=after or ""))

    async def close(self) -> None:
        """Close the connections. Sessions go on."""
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
