# SPDX-License-Identifier: Apache-2.0
"""When a request is sent again, and what to do with a stream that broke. Decides only: the clients
wait and send.

A request is repeated for a short while when the server cannot have done it, or when doing it twice
does no harm. A server that never answered is not waited for.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeVar

from husk.calls.call import Call
from husk.calls.sessions import execution_events
from husk.errors import (
    AnswerTimeoutError,
    ConnectionLostError,
    HuskError,
    ServerNotFoundError,
)
from husk.http.transport import Request
from husk.http.wire import Answer, Broken
from husk.locate import Address
from husk.results.events import Event, EventReader
from husk.results.result import Result

T = TypeVar("T")

REPEAT_SECONDS = 10.0
FIRST_PAUSE = 0.02
LONGEST_PAUSE = 0.5


class Attempts:
    """The attempts to get one request done."""

    def __init__(self, can_repeat: bool, address: Address, has_worked: bool) -> None:
        self.can_repeat = can_repeat
        self.address = address
        self.has_worked = has_worked  # the server has answered before, so it is worth waiting for
        self.begin()

    def begin(self) -> None:
        """Count from now: there was progress."""
        self.deadline = 0.0
        self.pause = FIRST_PAUSE

    def broken(self, why: Broken) -> float:
        """Seconds to wait before the next attempt; raises when there is none."""
        if why.is_late:
            raise AnswerTimeoutError("The server did not answer in time.", detail=str(why)) from why
        if why.is_sent and not self.can_repeat:
            raise ConnectionLostError(
                "The connection broke before the answer came.",
                detail=f"{why}; the server may have done it",
                solution="Look at the state before you repeat the request.",
            ) from why
        if not self._has_time() or not (self.has_worked or why.is_sent):
            raise ServerNotFoundError(
                f"There is no server at {self.address}.",
                detail=str(why),
                solution="Start it with `husk up`, or correct HUSK_URL, HUSK_SOCKET or the argument.",
            ) from why
        return self._next_pause()

    def answered(self, answer: Answer) -> float | None:
        """None when this is the answer; else seconds to wait, because the server asks for
        patience.
        """
        if answer.status != 503 or not self.can_repeat:
            return None
        body = answer.json()
        code = body.get("error_code") if isinstance(body, dict) else None
        return self._next_pause() if code == "Sandbox.Unavailable" and self._has_time() else None

    def _has_time(self) -> bool:
        now = time.monotonic()
        self.deadline = self.deadline or now + REPEAT_SECONDS
        return now < self.deadline

    def _next_pause(self) -> float:
        pause = self.pause
        self.pause = min(pause * 2, LONGEST_PAUSE)
        return pause


class Watch:
    """One execution that is followed to its end, over as many connections as it takes."""

    def __init__(
        self,
        call: Call[None],
        on_event: Callable[[Event], Awaitable[None] | None] | None = None,
        execution_id: str = "",
        after: str = "",
    ) -> None:
        self.call = call
        self.on_event = on_event
        self.result: Result | None = None
        self.is_over = False
        self.execution_id = execution_id
        self._last = after
        self._reader = EventReader()
        self._outputs: list[Any] = []
        self.attempts = Attempts(call.can_repeat, Address(None, ""), False)  # the client's follow

    def request(self) -> Request:
        """What to send now: the first request, or one that goes on where the last connection
        ended.
        """
        self._reader = EventReader()
        if self.execution_id:
            return execution_events(self.execution_id, self._last).request
        return self.call.request

    def feed(self, piece: bytes) -> list[Event]:
        """Take bytes of the stream; returns the events in them."""
        found = self._reader.feed(piece)
        for event in found:
            self._note(event)
        if found:
            self.attempts.begin()
            self.attempts.has_worked = True
            self.attempts.can_repeat = self.attempts.can_repeat or bool(self.execution_id)
        return found

    def refused(self, answer: Answer) -> None:
        """The answer is no stream: raises what fits, or Broken when it is worth another attempt."""
        self.attempts.has_worked = True
        if self.attempts.answered(answer) is None:
            self.call.value(answer)
        raise Broken("the server asks for patience", is_sent=False)

    def _note(self, event: Event) -> None:
        self._last = event.id or self._last
        if event.kind == "status":
            self.execution_id = event.data.get("execution_id", self.execution_id)
        elif event.kind == "output":
            self._outputs.append(event.data)
        elif event.kind == "result":
            outputs = [*self._outputs, *event.data.get("outputs", [])]
            self.result = Result({**event.data, "outputs": outputs})
        elif event.kind == "end":
            self.is_over = True


Flow = Generator[Any, Any, T]
"""Several steps that together are one operation: it yields each Call or Watch and is sent its
value.
"""


def ended(watch: Watch | None) -> Result:
    """The result of a watch that is over; None is one that was given up before it began."""
    if watch is None:
        raise HuskError("The stream ended before its run began.")
    if watch.result is None:
        raise HuskError("The server ended the stream without a result.")
    return watch.result
