# SPDX-License-Identifier: Apache-2.0
"""What a call of /api/v1 is: the request, how to read its answer, whether it may be repeated. Sends
nothing itself.

The operations are in calls_session.py, calls_files.py and calls_server.py, each written once;
Client and AsyncClient make their methods from them, and the text there is the text of those
methods.
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
    """Takes the body of an answer piece by piece, so that it need not be in memory."""

    def begin(self, size: int | None) -> None:
        """A body of this size follows; what was taken before is void."""

    def take(self, piece: bytes) -> None:
        """The next piece."""


@dataclass
class Guard:
    """What must hold before a request is sent again.

    Attributes:
        look: brings the session.
        check: raises when it is no longer what it was.
    """

    look: Call[Session]
    check: Callable[[Session], None]


@dataclass
class Call(Generic[T]):
    """One request, and what its answer means.

    Attributes:
        request: what is sent.
        read: makes the value of an answer that is no error.
        can_repeat: sending it twice does no harm: it only looks, sets the same state again, or
            carries a key.
        guard: looked at before it is sent again.
        sink: where the body of the answer goes, if it is not to be in memory.
    """

    request: Request
    read: Callable[[Answer], T]
    can_repeat: bool
    guard: Guard | None = None
    sink: Sink | None = None

    def value(self, answer: Answer) -> T:
        """The value of an answer; raises what fits when it is an error."""
        if answer.status >= 300:
            raise from_answer(answer.status, answer.json(), answer.headers.get("retry-after"))
        try:
            return self.read(answer)
        except (json.JSONDecodeError, UnicodeDecodeError) as why:
            raise ServerNotFoundError(
                "What answers at this address is no huskd.",
                detail=str(why),
                solution="Correct HUSK_URL, HUSK_SOCKET or the argument.",
            ) from why


# ---- the parts that all have in common ----


def record(kind: type[R]) -> Callable[[Answer], R]:
    """Reads an answer that is one record."""
    return lambda answer: kind.parse(json.loads(answer.body))


def page(kind: type[R]) -> Callable[[Answer], Page[R]]:
    """Reads an answer that is a page of records."""

    def read(answer: Answer) -> Page[R]:
        data = json.loads(answer.body)
        items = [kind.parse(item) for item in data["items"]]
        return Page(items, data["total"], data["limit"], data["offset"], data["has_more"])

    return read


def result(answer: Answer) -> Result:
    """Reads an answer that is an execution."""
    return Result(json.loads(answer.body))


def nothing(answer: Answer) -> None:
    """Reads an answer that says nothing."""
    return None


def given(**fields: Any) -> dict[str, Any]:
    """The fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def target_of(*parts: str | int, **query: Any) -> str:
    """Path and query of a route below /api/v1."""
    path = "/".join([BASE, *(quote(str(part), safe="") for part in parts)])
    asked = {k: str(v).lower() if isinstance(v, bool) else v for k, v in given(**query).items()}
    return f"{path}?{urlencode(asked)}" if asked else path


def path_in_target(path: str) -> str:
    """A path of the workspace in an address; its slashes stand as they are.

    httpx and proxies resolve dots on the way: what is left might name a file of another session.
    """
    if not path or _NO_PATH.search(path):
        raise InvalidParameterError(
            f"{path!r} does not name a file of the workspace.",
            solution="Leave out . and .. and control characters.",
        )
    return quote(path, safe="/")


def get(target: str, read: Callable[[Answer], T]) -> Call[T]:
    """A call that only looks."""
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
    """A call that changes something; a key makes it one that can be repeated."""
    if key is not None and not _KEY.fullmatch(key):
        raise InvalidParameterError("An Idempotency-Key has visible ASCII characters only.")
    headers = {} if body is None else JSON
    if key is not None:
        headers = {**headers, "Idempotency-Key": key}
    data = None if body is None else json.dumps(body).encode()
    request = Request(method, target, headers, data, timeout=timeout)
    return Call(request, read, can_repeat or key is not None)


def new_key() -> str:
    """A key that nobody has used before."""
    return secrets.token_hex(12)
