# SPDX-License-Identifier: Apache-2.0
"""Client: every operation of /api/v1 on any session. Sandbox is easier to use for one session."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import closing
from typing import Any, Concatenate, ParamSpec, TypeVar

from husk.calls import files
from husk.calls import server as srv
from husk.calls import sessions as ses
from husk.calls.call import Call
from husk.client.base import ClientBase, named_as
from husk.client.drive import Flow, Watch, ended
from husk.http.transport import Transport
from husk.http.wire import Answer, Broken
from husk.results.events import Event

P = ParamSpec("P")
T = TypeVar("T")


def blocking(build: Callable[P, Call[T]]) -> Callable[Concatenate[Client, P], T]:
    """Return a method of Client that sends the described call."""

    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.send(build(*args, **kwargs))

    return named_as(build, method)


class Client(ClientBase[Transport]):
    """All operations of a server, as blocking calls. Threads may share a Client.

    Args:
        url: the server, as `http://host:port`, `https://host` or `unix:///path`. Without url and
            socket, a running server is found, or one is started for the life of this process; see
            husk.locate.
        socket: path of its unix socket, instead of url.
        headers: sent with every request, for a proxy in front of the server.
        api_key: sent as `Authorization: Bearer ...`.
    """

    _transport_class = Transport

    def send(self, call: Call[T]) -> T:
        """Send a call, retry it if that is safe, and return its value."""
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
        """Yield the events of an execution as they arrive; resume after a broken connection."""
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
        """Execute the steps of a flow and return its value."""
        value: Any = None
        try:
            step = next(flow)
            while True:
                try:
                    value = self._step(step)
                except BaseException as e:  # a flow may clean up on Ctrl-C
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
        """Follow an execution as it runs, or read its events again.

        Args:
            execution_id: the execution.
            after: id of the last event already received.
        """
        call = ses.execution_events(execution_id, after)
        return self.watch(Watch(call, execution_id=execution_id, after=after or ""))

    def close(self) -> None:
        """Close the connections. Sessions continue."""
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
    create_context = blocking(ses.create_context)
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
