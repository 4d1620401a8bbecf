# SPDX-License-Identifier: Apache-2.0
"""Events of a running execution, parsed from server-sent events."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Event:
    """One event of an execution.

    Attributes:
        kind: `status`, `stdout`, `stderr`, `output`, `result` or `end`.
        data: its fields.
        id: the position after it, from which a reader can resume.
    """

    kind: str
    data: dict[str, Any]
    id: str = ""

    @property
    def bytes(self) -> bytes:
        """The output of `stdout` and `stderr` as bytes; empty for other kinds."""
        if "base64" in self.data:
            return base64.b64decode(self.data["base64"])
        return str(self.data.get("text", "")).encode()

    @property
    def text(self) -> str:
        """The output as text, with U+FFFD for bytes that are not UTF-8."""
        if self.kind not in ("stdout", "stderr"):
            return ""
        return self.bytes.decode(errors="replace")


class EventReader:
    """Parses the bytes of a stream into events, however they are split."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> list[Event]:
        """Take the next bytes; return the events that they complete."""
        *blocks, self._rest = (self._rest + piece).split(b"\n\n")
        found = (self._event(block.decode()) for block in blocks)
        return [event for event in found if event is not None]

    @staticmethod
    def _event(block: str) -> Event | None:
        fields: dict[str, str] = {}
        for line in block.split("\n"):
            name, _, value = line.partition(":")
            if name:  # else a comment that keeps the connection alive
                value = value.removeprefix(" ")
                fields[name] = f"{fields[name]}\n{value}" if name in fields else value
        if "data" not in fields:
            return None
        return Event(
            fields.get("event", "message"), json.loads(fields["data"]), fields.get("id", "")
        )
