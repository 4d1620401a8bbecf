# SPDX-License-Identifier: Apache-2.0
"""The client's side of WebSockets (RFC 6455) by bare sockets, for suites that also break its rules.
"""
from __future__ import annotations

import base64
import hashlib
import os
import struct

from http_raw import HOST, Answer, Line, answers

TEXT, CLOSE, PING, PONG = 1, 8, 9, 10
MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def handshake(target: str, key: bytes, more: bytes = b"") -> bytes:
    return (
        b"GET " + target.encode() + b" HTTP/1.1\r\n" + HOST + b"Upgrade: websocket\r\n"
        b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "
        + key
        + b"\r\n"
        + more
        + b"\r\n"
    )


def shake_hands(line: Line, target: str, more: bytes = b"", behind: bytes = b"") -> Answer:
    """Switches over. behind: bytes that leave together with the handshake."""
    key = base64.b64encode(os.urandom(16))
    line.send(handshake(target, key, more) + behind)
    answer = answers(line.until(b"\r\n\r\n"))[0]
    assert answer.status == 101, line.buffer
    accept = base64.b64encode(hashlib.sha1(key + MAGIC).digest()).decode()
    assert answer.headers["sec-websocket-accept"] == accept
    assert (answer.headers["upgrade"], answer.headers["connection"]) == ("websocket", "Upgrade")
    assert "content-length" not in answer.headers and "transfer-encoding" not in answer.headers
    return answer


def masked(opcode: int, data: bytes, fin: bool = True, size: int | None = None) -> bytes:
    """A client's frame. size: what it claims as its length."""
    n = len(data) if size is None else size
    if n < 126:
        length = bytes([128 | n])
    elif n < 65536:
        length = bytes([128 | 126]) + struct.pack(">H", n)
    else:
        length = bytes([128 | 127]) + struct.pack(">Q", n)
    mask = os.urandom(4)
    repeated = mask * (len(data) // 4 + 1)
    body = int.from_bytes(data, "big") ^ int.from_bytes(repeated[: len(data)], "big")
    return bytes([(128 if fin else 0) | opcode]) + length + mask + body.to_bytes(len(data), "big")


def close_frame(code: int) -> bytes:
    return masked(CLOSE, struct.pack(">H", code))


def close_code(data: bytes) -> int:
    code: int = struct.unpack(">H", data[:2])[0]
    return code


def frame(line: Line, keep_pings: bool = False) -> tuple[int, bytes]:
    """The server's next frame. Pings are answered on the way, unless they are wanted."""
    while True:
        first, second = line.exactly(2)
        assert first & 0x70 == 0 and second & 0x80 == 0, "reserved bits or mask in a server's frame"
        n = second
        if n == 126:
            (n,) = struct.unpack(">H", line.exactly(2))
        elif n == 127:
            (n,) = struct.unpack(">Q", line.exactly(8))
        data = line.exactly(n)
        if first & 15 != PING or keep_pings:
            return first & 15, data
        line.send(masked(PONG, data))
