# SPDX-License-Identifier: Apache-2.0
"""Sandbox: one session of a server.

    with Sandbox() as s:
        print(s.run("1 + 1").text)

AsyncSandbox in aio.py has the same methods; both are generated from operations.py and files.py.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any, Concatenate, ParamSpec, TypeVar

from husk.calls.call import Call
from husk.client.base import named_as
from husk.client.blocking import Client
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


# ---- methods from descriptions ----


def blocking(
    build: Callable[Concatenate[Held, P], Call[T] | Flow[T]],
) -> Callable[Concatenate[_Blocking, P], T]:
    """Return a method of Sandbox or Files that executes the operation."""

    def method(self: _Blocking, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._do(build(self._held, *args, **kwargs))

    return named_as(build, method, skip=1)


class _Blocking:
    _held: Held
    _client: Client

    def _do(self, operation: Call[T] | Flow[T]) -> T:
        if isinstance(operation, Call):
            return self._client.send(operation)
        return self._client.drive(operation)


# ---- files ----


class Files(_Blocking):
    """The files of a sandbox: `sandbox.files`. Paths are below the workspace."""

    def __init__(self, client: Client, held: Held) -> None:
        self._client, self._held = client, held

    def _do(self, operation: Call[T] | Flow[T]) -> T:
        return self._client.drive(ops.explained(self._held, operation))

    read = blocking(file_ops.read)
    read_text = blocking(file_ops.read_text)
    write = blocking(file_ops.write)
    upload = blocking(file_ops.upload)
    download = blocking(file_ops.download)
    list = blocking(file_ops.list_all)
    stat = blocking(file_ops.stat)
    exists = blocking(file_ops.exists)
    move = blocking(file_ops.move)
    delete = blocking(file_ops.delete)
    mkdir = blocking(file_ops.mkdir)
    export_tar = blocking(file_ops.export_tar)
    import_tar = blocking(file_ops.import_tar)


# ---- streams ----


class Stream(StreamBase):
    """A run whose events are read as they arrive. It starts when the first event is read.

    `for event in sandbox.stream(code)` yields every event, `.text()` only standard output, and
    `.result` is its result.
    """

    _events: Generator[Event, None, None]

    def _follow(
        self, sandbox: Sandbox, body: dict[str, Any], key: str | None
    ) -> Generator[Event, None, None]:
        self._watch = sandbox._do(ops.watch(sandbox._held, body, key))
        try:
            yield from sandbox._client.watch(self._watch)
        except (SessionNotFoundError, ConflictError) as e:
            sandbox._do(ops.explain(sandbox._held, e))

    def __iter__(self) -> Iterator[Event]:
        return self._events

    def text(self) -> Iterator[str]:
        """Iterate over the pieces of standard output."""
        return (event.text for event in self._events if event.kind == "stdout")

    @property
    def result(self) -> Result:
        """The result, after the rest of the stream has been read."""
        for _ in self._events:
            pass
        return ended(self._watch)

    def close(self) -> None:
        """Stop reading. The run continues."""
        self._events.close()


# ---- sandboxes ----


class Sandbox(SandboxBase[Client, Stream], _Blocking):
    """A sandbox: one interpreter with its files.

    The constructor creates the session; the `with` block or `close()` ends it. A session that the
    object only attached to is left running.

    Args:
        template: the template of the sandbox; `python` by default. `husk template list` shows all.
        language: `python`, `javascript` or `shell`, for runs that name none; it also chooses the
            template if none is given.
        timeout: idle seconds after which the server ends the session; 300 by default.
        on_idle: `end`, or after these seconds `park` (files stay) or `freeze` (variables stay, too).
        memory: memory limit, such as "512Mi", or bytes.
        cpus: CPU cores; fractions are allowed.
        disk: limit for all writable files, such as "256Mi", or bytes.
        pids: maximum number of processes and threads.
        env: environment variables of every run.
        agent_id: if this agent has a live session with all that is asked for, use that one.
        min_isolation: `full` (every layer, or fail; the default) or `userns`.
        mode: `persistent` (default), or `ephemeral`: ends after one run.
        id: a custom id for the new session.
        session_id: attach to this session instead of creating one.
        url: the server; by default a running server is found, or one is started: see husk.locate.
        socket: path of its unix socket, instead of url.
        headers: sent with every request, for a proxy in front of the server.
        api_key: sent as `Authorization: Bearer ...`.
        client: use the connections of this client, instead of the four above.
        durable: record runs before they start, so that they survive a restart of the server. False
            saves one write to disk per run; if the server dies, the result of the run is lost.
    """

    _client_class = Client
    _stream_class = Stream

    def _open(self) -> None:
        self.files = Files(self._client, self._held)
        try:
            self._do(ops.start(self._held))
        except BaseException:
            self.close()
            raise

    @classmethod
    def attach(cls, session_id: str, **arguments: Any) -> Sandbox:
        """Attach to an existing session. This object does not end it.

        Args:
            session_id: the session.
            arguments: url, socket, headers, api_key, client, durable, as for Sandbox.
        """
        return cls(session_id=session_id, **arguments)

    def close(self) -> None:
        """End the session if this object created it, and close the connections. A second call does
        nothing.
        """
        try:
            if self._held.is_mine and not self._client.is_closed:
                self._do(ops.terminate(self._held))
        finally:
            if self._has_own_client:
                self._client.close()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, kind: object = None, error: object = None, trace: object = None) -> None:
        with leaving(self._client, error):
            self.close()

    run = blocking(ops.run)
    shell = blocking(ops.shell)
    handler = blocking(ops.handler)
    interrupt = blocking(ops.interrupt)
    reset = blocking(ops.reset)
    contexts = blocking(ops.contexts)
    checkpoint = blocking(ops.checkpoint)
    restore = blocking(ops.restore)
    branch = blocking(ops.branch)
    info = blocking(ops.info)
    stats = blocking(ops.stats)
    receipt = blocking(ops.receipt)
    executions = blocking(ops.executions)
    extend = blocking(ops.extend)
    terminate = blocking(ops.terminate)
