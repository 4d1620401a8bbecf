# SPDX-License-Identifier: Apache-2.0
"""Encodes requests and decodes answers for a plain connection. Does no I/O.

Most requests are small and use this code, because a general HTTP client costs several times the CPU
time of the run it requests. Streams, uploads and https use httpx: see transport.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from husk.errors import InvalidParameterError

HEAD_END = b"\r\n\r\n"
HEAD_MAX = 65536


class Broken(Exception):
    """No answer arrived on a connection.

    Attributes:
        is_sent: the server may have received and executed the request.
        is_late: the request timed out.
    """

    def __init__(self, why: str, is_sent: bool, is_late: bool = False) -> None:
        super().__init__(why)
        self.is_sent = is_sent
        self.is_late = is_late


class Answer(NamedTuple):
    """An answer of the server; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The decoded body; as text if it is not JSON, for error messages."""
        try:
            return json.loads(self.body)
        except ValueError:
            return self.body.decode(errors="replace")


def encode(
    method: str, target: str, host: str, headers: Mapping[str, str], body: bytes | None
) -> bytes:
    """Encode a request."""
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body is not None or method in ("POST", "PUT"):
        lines.append(f"Content-Length: {len(body or b'')}")
    text = "\r\n".join(lines)
    if text.count("\n") != len(lines) - 1 or text.count("\r") != len(lines) - 1:
        raise InvalidParameterError("a line break in a header")
    try:
        head = text.encode("latin-1") + HEAD_END
    except UnicodeEncodeError as e:
        raise InvalidParameterError("a character in a header that cannot be sent") from e
    return head + body if body else head


def decode_head(head: bytes) -> tuple[int, dict[str, str], int]:
    """Decode the head of an answer.

    Args:
        head: the whole head, with or without the empty line at its end.

    Returns:
        Status, headers, and the length of the body.
    """
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    version, _, rest = first.partition(" ")
    status = int(rest[:3]) if version == "HTTP/1.1" and rest[:3].isdigit() else 0
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    length = headers.get("content-length", "0" if status in (204, 304) else "")
    if not status or not length.isdigit() or "transfer-encoding" in headers:
        raise Broken("the server does not answer as huskd does", is_sent=True)
    return status, headers, int(length)
