# SPDX-License-Identifier: Apache-2.0
"""The base of both clients, and how their methods are generated from husk.calls."""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from husk.client.drive import Attempts
from husk.errors import InvalidParameterError, SandboxClosedError
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


_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\xa0-\xff]*")
# Of the connection and of single requests.
_OURS = {
    "accept-encoding",
    "connection",
    "content-length",
    "content-type",
    "host",
    "idempotency-key",
    "last-event-id",
    "transfer-encoding",
}


def common_headers(headers: Mapping[str, str] | None, api_key: str | None) -> dict[str, str]:
    """Return the headers of every request of a client; raise if one cannot be sent."""
    always = dict(headers or {})
    for name, value in always.items():
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise InvalidParameterError(f"The header {name!r} cannot be sent.")
        if name.lower() in _OURS:
            raise InvalidParameterError(f"The header {name!r} is set for each request.")
    if api_key is not None:
        if any(name.lower() == "authorization" for name in always):
            raise InvalidParameterError("Give api_key or a header Authorization, not both.")
        if not api_key or not _VALUE.fullmatch(api_key):
            raise InvalidParameterError("This api_key cannot be sent.")
        always["Authorization"] = f"Bearer {api_key}"
    return always


AnyTransport = TypeVar("AnyTransport", Transport, AsyncTransport)


class ClientBase(Generic[AnyTransport]):
    """Holds the address of the server, the connections, and whether the server has answered."""

    _transport_class: type[AnyTransport]

    def __init__(
        self,
        url: str | None = None,
        *,
        socket: str | os.PathLike[str] | None = None,
        headers: Mapping[str, str] | None = None,
        api_key: str | None = None,
    ) -> None:
        always = common_headers(headers, api_key)
        found = server(url, socket)
        assert found is not None  # server() finds or starts one, or raises
        self.address: Address = found
        self.transport: AnyTransport = self._transport_class(found, always)
        self.has_worked = False
        self.is_closed = False

    def attempts(self, can_repeat: bool) -> Attempts:
        """Return the attempts for a new request."""
        if self.is_closed:
            raise SandboxClosedError("This object is closed.")
        return Attempts(can_repeat, self.address, self.has_worked)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.address)!r})"
