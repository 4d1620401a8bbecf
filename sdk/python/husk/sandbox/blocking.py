# SPDX-License-Identifier: Apache-2.0
"""Sandbox: one session of the server in your hands.

    with Sandbox() as s:
        print(s.run("1 + 1").text)

AsyncSandbox in aio.py has the same methods; both are made from the descriptions in held.py and
held_files.py.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from husk.calls.call import Call
from husk.calls.sessions import Isolation, Mode, Size, work
from husk.client.blocking import AsyncClient, Client, named_as
from husk.client.drive import Flow, Watch, ended
from husk.errors import (
    ConflictError,
    HuskError,
    InvalidParameterError,
    ServerNotFoundError,
    SessionNotFoundError,
)
from husk.results.events import Event
from husk.results.models import Session
from husk.results.result import Result
from husk.sandbox import files as file_ops
from husk.sandbox import operations as ops
from husk.sandbox.state import Held

P = ParamSpec("P")
T = TypeVar("T")


# ---- methods from descriptions ----


def blocking(
    build: Callable[Concatenate[Held, P], Call[T] | Flow[T]],
) -> Callable[Concatenate[_Blocking, P], T]:
    """A method of Sandbox or its files that does what build describes."""

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


class Stream:
    """A run whose events are read as they come. It begins with the first event that is asked for.

    for event in sandbox.stream(code): ... gives every event, `.text()` only what it prints,
    `.result` its result.
    """

    def __init__(self, sandbox: Sandbox, body: dict[str, Any], key: str | None) -> None:
        self._watch: Watch | None = None
        self._events = self._follow(sandbox, body, key)

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
        """Standard output piece by piece."""
        return (event.text for event in self._events if event.kind == "stdout")

    @property
    def result(self) -> Result:
        """The result; reads what is left of the stream first."""
        for _ in self._events:
            pass
        return ended(self._watch)

    def close(self) -> None:
        """Stop reading. The run goes on."""
        self._events.close()


def stream_body(
    code: str | None,
    command: str | None,
    timeout: int | None,
    env: Mapping[str, str] | None,
    args: Sequence[str] | None,
    stdin: str | None,
    context: int | None,
) -> dict[str, Any]:
    """What a stream is to execute."""
    if (code is None) == (command is None):
        raise InvalidParameterError("Give code or command, and not both.")
    return work(
        code=code,
        command=command,
        timeout=timeout,
        env=env,
        args=args,
        stdin=stdin,
        context=context,
    )


# ---- sandboxes ----


class SandboxBase:
    """Arguments and what does not wait."""

    _held: Held

    @property
    def id(self) -> str:
        """Id of the session; empty before an AsyncSandbox was started."""
        return self._held.session_id

    @property
    def session(self) -> Session | None:
        """The session as last seen; `info()` asks the server."""
        return self._held.session

    @property
    def is_owner(self) -> bool:
        """This object made the session and ends it."""
        return self._held.is_mine

    def __repr__(self) -> str:
        state = "terminated" if self._held.is_over else self.id or "not started"
        return f"<{type(self).__name__} {state}>"

    def __del__(self) -> None:
        held = getattr(self, "_held", None)
        if held is not None and held.is_mine and not held.is_over:
            warnings.warn(
                f"unclosed {self!r}: its session goes on until it was idle for too long",
                ResourceWarning,
                source=self,
                stacklevel=2,
            )


def leaving(client: Client | AsyncClient, error: object) -> contextlib.AbstractContextManager[None]:
    """Around close() at the end of a block: what was raised in the block says more than what
    close() raises.
    """
    if isinstance(error, ServerNotFoundError):
        client.has_worked = False  # it has been waited for already
    return contextlib.suppress(HuskError) if error is not None else contextlib.nullcontext()


def wanted_of(session_id: str | None, **arguments: Any) -> dict[str, Any] | None:
    """Arguments of create_session, or None when a session is to be attached to."""
    given = {name: value for name, value in arguments.items() if value is not None}
    if session_id is None:
        return given
    if given:
        raise InvalidParameterError(
            f"A session that exists already has its {', '.join(given)}.",
            solution="Leave that out, or leave out session_id.",
        )
    return None


class Sandbox(SandboxBase, _Blocking):
    """A sandbox: one interpreter, its files, and everything that can be done with them.

    It is made at once, and ended by the `with` block or `close()`. What it made it ends; what it
    attached to it leaves.

    Args:
        template: what it is made from; `python` by default. `husk template list` shows all.
        timeout: seconds without work after which the server ends it; 300 by default.
        memory: such as "512Mi", or bytes.
        cpus: processor cores; parts are allowed.
        disk: everything writable, such as "256Mi", or bytes.
        pids: processes and threads at once.
        env: environment variables of every run.
        agent_id: an agent that comes again finds its live session.
        min_isolation: `full` (every layer or refuse, the default) or `userns`.
        mode: `persistent` (default), or `ephemeral`: ends after one run.
        id: an id of your own for the new session.
        session_id: attach to this session instead of making one.
        url: the server; without it one is looked for, and started when there is none: see
            husk.locate.
        socket: path of its unix socket, instead of url.
        client: use the connections of this client, instead of url and socket.
        durable: runs are recorded before they start, so that they survive a restart of the server.
            False is faster by a write to disk, and a server that dies takes the answer of a run
            with it.
    """

    def __init__(
        self,
        template: str | None = None,
        *,
        timeout: int | None = None,
        memory: Size | None = None,
        cpus: float | None = None,
        disk: Size | None = None,
        pids: int | None = None,
        env: Mapping[str, str] | None = None,
        agent_id: str | None = None,
        min_isolation: Isolation | None = None,
        mode: Mode | None = None,
        id: str | None = None,
        session_id: str | None = None,
        url: str | None = None,
        socket: str | os.PathLike[str] | None = None,
        client: Client | None = None,
        durable: bool = True,
    ) -> None:
        wanted = wanted_of(
            session_id,
            template=template,
            timeout=timeout,
            memory=memory,
            cpus=cpus,
            disk=disk,
            pids=pids,
            env=env,
            agent_id=agent_id,
            min_isolation=min_isolation,
            mode=mode,
            id=id,
        )
        self._has_own_client = client is None
        self._client = client or Client(url, socket=socket)
        self._held = Held(self._client.transport, wanted, durable, session_id or "")
        self.files = Files(self._client, self._held)
        try:
            self._do(ops.start(self._held))
        except BaseException:
            self.close()
            raise

    @classmethod
    def attach(cls, session_id: str, **arguments: Any) -> Sandbox:
        """Hold a session that exists already; it is not ended by this object.

        Args:
            session_id: the session.
            arguments: url, socket, client, durable, as of Sandbox.
        """
        return cls(session_id=session_id, **arguments)

    @property
    def client(self) -> Client:
        """The client that it talks through, for everything that is not about this session."""
        return self._client

    def stream(
        self,
        code: str | None = None,
        *,
        command: str | None = None,
        timeout: int | None = None,
        env: Mapping[str, str] | None = None,
        args: Sequence[str] | None = None,
        stdin: str | None = None,
        context: int | None = None,
        key: str | None = None,
    ) -> Stream:
        """Run code or a command and get what happens as it happens.

        Args:
            code: source in the language of the template.
            command: a shell command, instead of code.
            timeout: seconds; 30 by default.
            env: environment variables of this run.
            args: `sys.argv[1:]`, or `$1` and so on.
            stdin: standard input as a whole.
            context: which context, when there are branches.
            key: an Idempotency-Key of your own; one is made otherwise.
        """
        body = stream_body(code, command, timeout, env, args, stdin, context)
        return Stream(self, body, key)

    def close(self) -> None:
        """End the session if this object made it, and close the connections. Doing it twice is
        fine.
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
