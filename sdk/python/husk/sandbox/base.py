# SPDX-License-Identifier: Apache-2.0
"""What Sandbox and AsyncSandbox have in common: their arguments, and everything that does not wait."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

from husk.calls.call import given
from husk.calls.sessions import Isolation, Mode, Size, work
from husk.client import AsyncClient, Client
from husk.client.drive import Watch
from husk.errors import HuskError, InvalidParameterError, ServerNotFoundError
from husk.results.models import Session
from husk.sandbox.state import Held

AnyClient = TypeVar("AnyClient", Client, AsyncClient)


class StreamBase:
    """A run that begins when the first of its events is read."""

    _events: Any

    def __init__(self, sandbox: Any, body: dict[str, Any], key: str | None) -> None:
        self._watch: Watch | None = None
        self._events = self._follow(sandbox, body, key)

    def _follow(self, sandbox: Any, body: dict[str, Any], key: str | None) -> Any:
        raise NotImplementedError


AnyStream = TypeVar("AnyStream", bound=StreamBase)


class SandboxBase(Generic[AnyClient, AnyStream]):
    """Arguments and what does not wait."""

    _client_class: type[AnyClient]
    _stream_class: type[AnyStream]

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
        client: AnyClient | None = None,
        durable: bool = True,
    ) -> None:
        wanted = _wanted(
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
        self._client: AnyClient = client or self._client_class(url, socket=socket)
        self._held = Held(self._client.transport, wanted, durable, session_id or "")
        self._open()

    def _open(self) -> None:
        raise NotImplementedError

    @property
    def client(self) -> AnyClient:
        """The client that it talks through, for everything that is not about this session."""
        return self._client

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
    ) -> AnyStream:
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
        body = work(
            code=code,
            command=command,
            timeout=timeout,
            env=env,
            args=args,
            stdin=stdin,
            context=context,
        )
        return self._stream_class(self, body, key)

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


def _wanted(session_id: str | None, **arguments: Any) -> dict[str, Any] | None:
    """Arguments of create_session, or None when a session is to be attached to."""
    wanted = given(**arguments)
    if session_id is None:
        return wanted
    if wanted:
        raise InvalidParameterError(
            f"A session that exists already has its {', '.join(wanted)}.",
            solution="Leave that out, or leave out session_id.",
        )
    return None
