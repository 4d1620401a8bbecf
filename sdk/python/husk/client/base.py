# SPDX-License-Identifier: Apache-2.0
"""The base of both clients, and how their methods are generated from husk.calls."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from husk.client.drive import Attempts
from husk.errors import SandboxClosedError
from husk.http.transport import AsyncTransport, Transport
from husk.locate import Address, server

F = TypeVar("F", bound=Callable[..., Any])


def named_as(build: Callable[..., Any], method: F, skip: int = 0) -> F:
    """Give a generated method the name, docstring and signature of its description."""
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


AnyTransport = TypeVar("AnyTransport", Transport, AsyncTransport)


class ClientBase(Generic[AnyTransport]):
    """Holds the address of the server, the connections, and whether the server has answered."""

    _transport_class: type[AnyTransport]

    def __init__(
        self, url: str | None = None, *, socket: str | os.PathLike[str] | None = None
    ) -> None:
        found = server(url, socket)
        assert found is not None  # server() finds or starts one, or raises
        self.address: Address = found
        self.transport: AnyTransport = self._transport_class(found)
        self.has_worked = False
        self.is_closed = False

    def attempts(self, can_repeat: bool) -> Attempts:
        """Return the attempts for a new request."""
        if self.is_closed:
            raise SandboxClosedError("This object is closed.")
        return Attempts(can_repeat, self.address, self.has_worked)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.address)!r})"
