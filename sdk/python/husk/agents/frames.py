# SPDX-License-Identifier: Apache-2.0
"""Frames between huskd and a worker: a head of 12 bytes (length of the payload, type, id of the
request), then the payload.

Pure functions and a parser. huskd checks frames and ends a worker that breaks the rules, so
`json_frame` makes every value valid: depth, numbers, text that is not UTF-8.
"""

from __future__ import annotations

import json
import math
import struct
from typing import Any, Callable

from husk.agents.kinds import jsonable

CALL, CHAT, HTTP, BODY, END, CANCEL, PING, DRAIN = range(1, 9)
READY, FAILED, TEXT, EVENT, DONE, ERROR, HTTP_HEAD, HTTP_BODY, HTTP_END, PONG, BEGUN = range(64, 75)

HEAD = struct.Struct("<III")
MAX_PAYLOAD = 16 << 20
MAX_DEPTH = 60  # huskd allows 64, including the frame's own object

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


class FrameError(ValueError):
    """An invalid frame: from huskd, one that breaks the protocol; to huskd, an answer that is too
    large or deep.
    """


def frame(kind: int, request: int, payload: bytes = b"") -> bytes:
    if len(payload) > MAX_PAYLOAD:
        raise FrameError(
            f"an answer of {len(payload)} bytes is too large; the limit is {MAX_PAYLOAD}"
        )
    return HEAD.pack(len(payload), kind, request) + payload


def json_frame(kind: int, request: int, value: dict[str, Any]) -> bytes:
    """Returns a frame with a JSON payload of our own values; see `plain` for values of the agent."""
    return frame(kind, request, _encode(value).encode("utf-8", "replace"))


def plain(value: Any, depth: int = 0) -> Any:
    """Returns a copy of any value that is strict JSON.

    Objects are converted by `jsonable`, NaN and infinities become null, keys become text.

    Raises:
        FrameError: it is nested too deeply, or contains itself.
    """
    if value is None or isinstance(value, (str, bool)):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, int):
        return int(value) if value.bit_length() <= 1000 else str(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if depth >= MAX_DEPTH:
        raise FrameError(f"an answer nested deeper than {MAX_DEPTH} levels cannot be sent")
    if isinstance(value, dict):
        return {str(k).replace("\0", "\ufffd"): plain(v, depth + 1) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v, depth + 1) for v in value]
    return plain(jsonable(value), depth + 1)


class Parser:
    """Splits a stream of bytes into frames and calls `on_frame(type, id, payload)` for each."""

    def __init__(self, on_frame: Callable[[int, int, bytes], None]) -> None:
        self._on_frame = on_frame
        self._chunks: list[bytes] = []
        self._have = 0
        self._need = HEAD.size  # bytes until the next step

    def feed(self, data: bytes) -> None:
        """Raises FrameError for an invalid frame; the stream cannot be read after that."""
        self._have += len(data)
        if self._chunks or self._have < self._need:
            self._chunks.append(data)
            if self._have < self._need:
                return  # large frames arrive in many pieces; join them once
            data = b"".join(self._chunks)
            self._chunks = []
        at, n = 0, len(data)
        self._need = HEAD.size
        while n - at >= HEAD.size:
            length, kind, request = HEAD.unpack_from(data, at)
            if length > MAX_PAYLOAD:
                raise FrameError(f"a frame of {length} bytes; the limit is {MAX_PAYLOAD}")
            end = at + HEAD.size + length
            if end > n:
                self._need = HEAD.size + length
                break
            self._on_frame(kind, request, data[at + HEAD.size : end])
            at = end
        self._have = n - at
        if at < n:
            self._chunks.append(data[at:])
