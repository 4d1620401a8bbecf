# SPDX-License-Identifier: Apache-2.0
"""Answers that last: server-sent events, WebSockets. All by bare sockets."""
from __future__ import annotations

import base64
import os
import struct
import threading
import time
from collections.abc import Iterator

import pytest
from http_raw import Echo, Line, answers, echo_server
from websocket_raw import frame, handshake, masked, shake_hands

HOST = b"Host: localhost\r\n"


@pytest.fixture(scope="module")
def echo() -> Iterator[Echo]:
    with echo_server("heartbeat_ms=400", "ping_ms=400") as server:
        yield server


# ---- server-sent events ----


def test_events(echo: Echo) -> None:
    answer = echo.get("/sse?n=2")
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-accel-buffering"] == "no"
    event = "event: tick\ndata: line one\ndata: line two\n\n"
    assert answer.text == f"id: 1\n{event}id: 2\n{event}"


def chunk(line: Line) -> bytes:
    size = int(line.until(b"\r\n"), 16)
    return line.exactly(size + 2)[:-2]


def test_events_come_at_once_and_hearts_beat(echo: Echo) -> None:
    with echo.line() as line:
        line.send(b"GET /sse?keep=1 HTTP/1.1\r\n" + HOST + b"\r\n")
        line.until(b"\r\n\r\n")
        start = time.monotonic()
        assert echo.get("/publish?id=7&event=e&data=a%0Ab%0D%0Ac%0Dd").text == "0\n"
        assert chunk(line) == b"id: 7\nevent: e\ndata: a\ndata: b\ndata: c\ndata: d\n\n"
        assert echo.get("/publish?id=x%0Aid:+9&data=a").text == "-1\n"
        assert echo.get("/publish?event=x%0Ddata:+9&data=a").text == "-1\n"
        assert chunk(line) == b":\n\n"
        assert 0.3 < time.monotonic() - start < 20  # 400 ms after the loop last read its clock
        assert echo.get("/publish?data=bye&end=1").text == "0\n"
        assert chunk(line) == b"data: bye\n\n"
        assert chunk(line) == b""


def test_reader_of_events_that_leaves_is_noticed(echo: Echo) -> None:
    before = echo.stats()["gone"]
    line = echo.line()
    line.send(b"GET /sse?keep=1 HTTP/1.1\r\n" + HOST + b"\r\n")
    line.until(b"\r\n\r\n")
    line.sock.close()
    echo.wait_for("gone", before + 1)


def test_drain_ends_streams_properly() -> None:
    server = Echo()
    with server.line() as events, server.line() as socket:
        events.send(b"GET /sse?keep=1 HTTP/1.1\r\n" + HOST + b"\r\n")
        events.until(b"\r\n\r\n")
        shake_hands(socket, "/ws")
        assert server.get("/drain").status == 200
        assert events.rest().endswith(b": server stops\n\n\r\n0\r\n\r\n")
        assert frame(socket) == (8, struct.pack(">H", 1001))
        socket.send(masked(8, struct.pack(">H", 1001)))
        assert socket.rest() == b""
    assert server.process.wait(5) == 0
    assert server.process.stdout is not None
    server.process.stdout.close()


# ---- WebSocket ----


def test_messages_come_back(echo: Echo) -> None:
    with echo.line() as line:
        shake_hands(line, "/ws", behind=masked(1, b"right behind the head"))
        assert frame(line) == (1, b"right behind the head")
        for size in (0, 1, 125, 126, 65535, 65536, 300000, 1 << 20):
            data = os.urandom(size)
            line.send(masked(2, data))
            assert frame(line) == (2, data)
        line.send(masked(1, "grüße".encode()))
        assert frame(line) == (1, "grüße".encode())


def test_fragments_and_control_frames_between(echo: Echo) -> None:
    with echo.line() as line:
        shake_hands(line, "/ws")
        line.send(masked(1, b"a", fin=False) + masked(9, b"hi") + masked(0, b"b", fin=False))
        line.send(masked(0, b"c"))
        assert frame(line) == (10, b"hi")
        assert frame(line) == (1, b"abc")


def test_closing_by_either_side(echo: Echo) -> None:
    before = echo.stats()["answered"]
    with echo.line() as line:
        shake_hands(line, "/ws")
        line.send(masked(8, struct.pack(">H", 1000) + b"bye"))
        assert frame(line) == (8, struct.pack(">H", 1000) + b"bye")
        assert line.rest() == b""
    with echo.line() as line:
        shake_hands(line, "/ws")
        line.send(masked(1, b"close"))
        assert frame(line) == (8, struct.pack(">H", 4000) + b"as you wished")
        line.send(masked(8, struct.pack(">H", 4000)))
        assert line.rest() == b""
    echo.wait_for("answered", before + 2)


BROKEN = [
    ("no mask", 1002, b"\x81\x02hi"),
    ("reserved bit", 1002, b"\xc1" + masked(1, b"hi")[1:]),
    ("unknown opcode", 1002, masked(3, b"hi")),
    ("continuation of nothing", 1002, masked(0, b"hi")),
    ("message inside a message", 1002, masked(1, b"a", fin=False) + masked(1, b"b")),
    ("not UTF-8", 1007, masked(1, b"\xff")),
    ("too large", 1009, masked(2, b"x", size=(1 << 20) + 1)),
    ("of absurd size", 1009, masked(2, b"x", size=(1 << 62))),
    ("too large in pieces", 1009, masked(2, bytes(1 << 20), fin=False) + masked(0, b"x")),
    ("too many fragments", 1008, masked(2, b"", fin=False) + masked(0, b"", fin=False) * 1024),
    ("bad close code", 1002, masked(8, struct.pack(">H", 999))),
    ("half a close code", 1002, masked(8, b"x")),
    ("ping in fragments", 1002, masked(9, b"hi", fin=False)),
    ("ping that is too long", 1002, masked(9, b"x" * 126)),
    ("16 bits for a short length", 1002, b"\x82\xfe\x00\x05" + bytes(9)),
    ("64 bits for a short length", 1002, b"\x82\xff" + struct.pack(">Q", 65535) + bytes(4)),
    ("length with its top bit set", 1002, b"\x82\xff" + b"\xff" * 8 + bytes(4)),
]


@pytest.mark.parametrize("name, code, data", BROKEN, ids=[row[0] for row in BROKEN])
def test_broken_frames(echo: Echo, name: str, code: int, data: bytes) -> None:
    for behind in (b"", data):  # right behind the handshake, whose answer must not be lost
        with echo.line() as line:
            shake_hands(line, "/ws", behind=behind)
            line.send(b"" if behind else data)
            opcode, reason = frame(line)
            assert (opcode, struct.unpack(">H", reason[:2])[0]) == (8, code)
            line.half_close()
            assert line.rest() == b""


def test_messages_before_a_broken_frame_are_answered(echo: Echo) -> None:
    with echo.line() as line:
        shake_hands(line, "/ws")
        line.send(masked(1, b"first") + masked(9, b"x" * 126))
        assert frame(line) == (1, b"first")
        assert frame(line) == (8, struct.pack(">H", 1002))
        assert line.rest() == b""


def test_broken_frame_instead_of_the_answer_to_a_close(echo: Echo) -> None:
    with echo.line() as line:
        shake_hands(line, "/ws")
        line.send(masked(1, b"close"))
        assert frame(line)[0] == 8
        line.send(masked(9, b"x" * 126))
        assert line.rest() == b"", "one close frame is enough"


def test_pings_and_silence(echo: Echo) -> None:
    before = echo.stats()["gone"]
    with echo.line() as line:
        shake_hands(line, "/ws")
        assert frame(line, keep_pings=True) == (9, b"")
        line.send(masked(10, b""))
        assert frame(line, keep_pings=True) == (9, b"")
        line.rest()  # silent from now on
    echo.wait_for("gone", before + 1)


def test_refused_handshakes(echo: Echo) -> None:
    key = base64.b64encode(bytes(16))
    assert echo.get("/ws").status == 426
    assert echo.get("/ws").headers["sec-websocket-version"] == "13"
    assert [a.status for a in echo.ask(handshake("/ws", b"short"))] == [400]
    old = handshake("/ws", key).replace(b"Version: 13", b"Version: 8")
    assert [a.status for a in echo.ask(old)] == [426]
    assert [a.status for a in echo.ask(handshake("/ws", key, b"Origin: http://evil\r\n"))] == [403]


def test_protocol_is_chosen(echo: Echo) -> None:
    with echo.line() as line:
        line.send(
            handshake("/ws", base64.b64encode(bytes(16)), b"Sec-WebSocket-Protocol: echo, x\r\n")
        )
        answer = answers(line.until(b"\r\n\r\n"))[0]
    assert answer.headers["sec-websocket-protocol"] == "echo"


def test_sender_that_does_not_read_is_held_back(echo: Echo) -> None:
    """Echoes pile up only to the mark; then the server stops reading."""
    before = echo.stats()["rss_kb"]
    with echo.line() as line:
        shake_hands(line, "/ws")
        most = 32 << 20
        assert line.send_until_stuck(masked(2, bytes(100000)), most) < most
        assert echo.stats()["rss_kb"] - before < 16384


def test_slow_reader_is_not_taken_for_a_dead_one(echo: Echo) -> None:
    """It can answer no ping that waits behind what it has not read yet."""
    count, message = 300, bytes(100000)
    with echo.line() as line:
        shake_hands(line, "/ws")
        data = masked(2, message) * count + masked(1, b"close")
        sender = threading.Thread(target=line.sock.sendall, args=(data,), daemon=True)
        sender.start()
        slow_until = time.monotonic() + 5 * 0.4  # so many pings would have been due
        while time.monotonic() < slow_until:
            line.buffer += line.sock.recv(1024)
            time.sleep(0.01)
        frames: list[tuple[int, bytes]] = []
        while not frames or frames[-1][0] != 8:
            frames.append(frame(line, keep_pings=True))
        sender.join()
        assert frames[-1][1] == struct.pack(">H", 4000) + b"as you wished"
        assert [data for opcode, data in frames if opcode == 2] == [message] * count
