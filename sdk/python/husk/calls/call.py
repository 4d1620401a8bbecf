# SPDX-License-Identifier: Apache-2.0
"""A call of /api/v1: the request, the parser of its answer, and whether it may be retried. Does no
I/O.

The operations are in sessions.py, files.py and server.py. Client and AsyncClient generate their
methods from them, with the same docstrings.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import quote, urlencode

from husk.calls.errors import from_answer
from husk.errors import InvalidParameterError, ServerNotFoundError
from husk.http.transport import Request
from husk.http.wire import Answer
from husk.results.models import Page, Record, Session
from husk.results.result import Result

T = TypeVar("T")
R = TypeVar("R", bound=Record)

BASE = "/api/v1"
_KEY = re.compile("[!-~]*")
_NO_PATH = re.compile(r"(^|/)\.{1,2}(/|$)|[\x00-\x1f\x7f]")
JSON = {"Content-Type": "application/json"}


class Sink(Protocol):
    """Receives the body of an answer piece by piece instead of in memory."""

    def begin(self, size: int | None) -> None:
        """A body of this size follows; discard earlier pieces."""

    def take(self, piece: bytes) -> None:
        """The next piece."""


@dataclass
class Guard:
    """A condition that must hold before a request is retried.

    Attributes:
        look: gets the session.
        check: raises if the session is not the same any more.
    """

    look: Call[Session]
    check: Callable[[Session], None]


@dataclass
class Call(Generic[T]):
    """One request and the meaning of its answer.

    Attributes:
        request: the request.
        read: parses a successful answer.
        can_repeat: sending it twice is harmless: it only reads, sets the same state again, or has
            an Idempotency-Key.
        guard: checked before a retry.
        sink: receives the body of the answer instead of memory.
    """

    request: Request
    read: Callable[[Answer], T]
    can_repeat: bool
    guard: Guard | None = None
    sink: Sink | None = None

    def value(self, answer: Answer) -> T:
        """Return the value of an answer, or raise its error."""
        if answer.status >= 300:
            raise from_answer(answer.status, answer.json(), answer.headers.get("retry-after"))
        try:
            return self.read(answer)
        except (json.JSONDecodeError, UnicodeDecodeError) as why:
            raise ServerNotFoundError(
                "The server at this address is not huskd.",
                detail=str(why),
                solution="Correct HUSK_URL, HUSK_SOCKET or the argument.",
            ) from why


# ---- parts of the descriptions ----


def record(kind: type[R]) -> Callable[[Answer], R]:
    """Return a parser for one record."""
    return lambda answer: kind.parse(json.loads(answer.body))


def page(kind: type[R]) -> Callable[[Answer], Page[R]]:
    """Return a parser for a page of records."""

    def read(answer: Answer) -> Page[R]:
        data = json.loads(answer.body)
        items = [kind.parse(item) for item in data["items"]]
        return Page(
            items,
            data["total"],
            data["limit"],
            data["offset"],
            data["has_more"],
            data.get("next_cursor"),
        )

    return read


def result(answer: Answer) -> Result:
    """Parse an execution."""
    return Result(json.loads(answer.body))


def nothing(answer: Answer) -> None:
    """Ignore the body of an answer."""
    return None


def given(**fields: Any) -> dict[str, Any]:
    """Return the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def target_of(*parts: str | int, **query: Any) -> str:
    """Return path and query of a route below /api/v1."""
    path = "/".join([BASE, *(quote(str(part), safe="") for part in parts)])
    asked = {k: str(v).lower() if isinstance(v, bool) else v for k, v in given(**query).items()}
    return f"{path}?{urlencode(asked)}" if asked else path


def path_in_target(path: str) -> str:
    """Quote a path of the workspace for a URL; keep its slashes.

    httpx and proxies resolve `..`, so such a path could name a file of another session.
    """
    if not path or _NO_PATH.search(path):
        raise InvalidParameterError(
            f"{path!r} is not a path in the workspace.",
            solution="Remove . and .. and control characters.",
        )
    return quote(path, safe="/")


def get(target: str, read: Callable[[Answer], T]) -> Call[T]:
    """Return a call that only reads."""
    return Call(Request("GET", target), read, can_repeat=True)


def send(
    method: str,
    target: str,
    body: Mapping[str, Any] | None,
    read: Callable[[Answer], T],
    *,
    can_repeat: bool,
    key: str | None = None,
    timeout: float = 60.0,
) -> Call[T]:
    """Return a call that changes state; a key makes it safe to retry."""
    if key is not None and not _KEY.fullmatch(key):
        raise InvalidParameterError("An Idempotency-Key may only have visible ASCII characters.")
    headers = {} if body is None else JSON
    if key is not None:
        headers = {**headers, "Idempotency-Key": key}
    data = None if body is None else json.dumps(body).encode()
    request = Request(method, target, headers, data, timeout=timeout)
    return Call(request, read, can_repeat or key is not None)


def new_key() -> str:
    """Return a new random key."""
    return secrets.token_hex(12)
