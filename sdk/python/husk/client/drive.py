# SPDX-License-Identifier: Apache-2.0
"""Decides when to retry a request and how to resume a stream. The clients wait and send.

A request is retried for a short time if the server cannot have executed it, or if executing it
twice is harmless. A server that has never answered is not retried.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import Any, TypeVar

from husk.calls.call import Call
from husk.calls.errors import fields_of
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


def never_began(fault: Mapping[str, Any]) -> bool:
    """Return whether a run failed before it began, and may be requested again."""
    return not fault["begun"] and bool(fault.get("retryable"))


class Attempts:
    """The attempts to execute one request."""

    def __init__(self, can_repeat: bool, address: Address, has_worked: bool) -> None:
        self.can_repeat = can_repeat
        self.address = address
        self.has_worked = has_worked  # the server has answered before, so retry
        self.begin()

    def begin(self) -> None:
        """Start the retry time again, after progress."""
        self.deadline = 0.0
        self.pause = FIRST_PAUSE

    def broken(self, why: Broken) -> float:
        """Return the seconds to wait before the next attempt; raise if there is none."""
        if why.is_late:
            raise AnswerTimeoutError("The server did not answer in time.", detail=str(why)) from why
        if why.is_sent and not self.can_repeat:
            raise ConnectionLostError(
                "The connection broke before the answer came.",
                detail=f"{why}; the server may have executed the request",
                solution="Check the state before you retry.",
            ) from why
        if not self._has_time() or not (self.has_worked or why.is_sent):
            raise ServerNotFoundError(
                f"No server answers at {self.address}.",
                detail=str(why),
                solution="Start it with `husk up`, or correct HUSK_URL, HUSK_SOCKET or the argument.",
            ) from why
        return self._next_pause()

    def answered(self, answer: Answer) -> float | None:
        """Return None if this answer is final, else the seconds to wait before a retry."""
        if answer.status not in (429, 503):
            return None
        fields = fields_of(answer.json())
        if not self._may_retry(fields) or not self._has_time():
            return None
        if answer.status == 429:  # its Retry-After; a part that restarts is back sooner
            said = answer.headers.get("retry-after", "")
            return float(said) if said.isdigit() else self._next_pause()
        return self._next_pause()

    def _may_retry(self, fields: Mapping[str, Any]) -> bool:
        if "begun" in fields:  # of a run: the server knows
            return never_began(fields)
        return self.can_repeat and fields.get("error_code") == "Sandbox.Unavailable"

    def _has_time(self) -> bool:
        now = time.monotonic()
        self.deadline = self.deadline or now + REPEAT_SECONDS
        return now < self.deadline

    def _next_pause(self) -> float:
        pause = self.pause
        self.pause = min(pause * 2, LONGEST_PAUSE)
        return pause


class Watch:
    """Follows one execution to its end, over as many connections as needed."""

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
        self._is_ours = not execution_id  # this watch requests the execution
        self._restart_until = 0.0
        # Replaced by the client.
        self.attempts = Attempts(call.can_repeat, Address(None, ""), False)

    def request(self) -> Request:
        """Return the first request, or one that resumes where the last connection ended."""
        self._reader = EventReader()
        if self.execution_id:
            return execution_events(self.execution_id, self._last).request
        return self.call.request

    def feed(self, piece: bytes) -> list[Event]:
        """Take bytes of the stream; return the events that they complete."""
        found = self._reader.feed(piece)
        for event in found:
            self._note(event)
        if found:
            self.attempts.begin()
            self.attempts.has_worked = True
            self.attempts.can_repeat = self.attempts.can_repeat or bool(self.execution_id)
        if self.result is not None and self._can_restart(self.result.data.get("fault")):
            self.result, self.execution_id, self._last = None, "", ""
            self.is_over = False
            raise Broken("the run did not begin", is_sent=False)
        return found

    def _can_restart(self, fault: Mapping[str, Any] | None) -> bool:
        """Return whether to request a run again that the server accepted and could not begin."""
        if fault is None or not self._is_ours or not never_began(fault):
            return False
        now = time.monotonic()
        self._restart_until = self._restart_until or now + REPEAT_SECONDS
        return now < self._restart_until

    def refused(self, answer: Answer) -> None:
        """The answer is not a stream: raise its error, or Broken to retry."""
        self.attempts.has_worked = True
        if self.attempts.answered(answer) is None:
            self.call.value(answer)
        raise Broken("the server is not ready", is_sent=False)

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
"""One operation of several steps: it yields each Call or Watch and receives its value."""


def ended(watch: Watch | None) -> Result:
    """Return the result of a finished watch; None stands for one that never began."""
    if watch is None:
        raise HuskError("The stream ended before its run began.")
    if watch.result is None:
        raise HuskError("The server ended the stream without a result.")
    if watch.result.fault is not None:
        raise watch.result.fault
    return watch.result
