# SPDX-License-Identifier: Apache-2.0
"""Events of /api/v1 over a WebSocket against a real huskd: the same as the server-sent ones, and
only for allowed clients.
"""
from __future__ import annotations

import base64
import contextlib
import json
import re
import signal
import socket
from collections.abc import Callable, Iterator

import pytest
from http_raw import Answer, Line, answers, reset
from husk_server import Server
from v1_client import Api, Event, text_of, v1, v1_server  # noqa: F401
from waiting import PATIENCE, wait_until
from websocket_raw import (
    CLOSE,
    PING,
    PONG,
    TEXT,
    close_code,
    close_frame,
    frame,
    handshake,
    masked,
    shake_hands,
)

KEY = base64.b64encode(bytes(16))
FOREVER = "print('on', flush=True)\nwhile True: pass"


def path_of(execution: str, query: str = "") -> str:
    return f"/api/v1/executions/{execution}/events{query}"


class Follower:
    """One WebSocket on the events of an execution."""

    def __init__(self, port: int, execution: str, query: str = "", more: bytes = b"") -> None:
        self.line = Line(port)
        self.line.sock.settimeout(PATIENCE)
        self.answer = shake_hands(self.line, path_of(execution, query), more)
        self.code: int | None = None  # of the server's close frame

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *_: object) -> None:
        self.line.sock.close()

    def events(self) -> Iterator[Event]:
        """As they arrive, until the server closes; that is answered."""
        while True:
            opcode, data = frame(self.line)
            if opcode == CLOSE:
                self.code = close_code(data)
                self.line.send(close_frame(self.code))
                return
            assert opcode == TEXT
            message = json.loads(data)
            assert list(message) == ["event", "id", "data"]
            yield Event(message["event"], message["id"], message["data"])

    def until(self, name: str) -> list[Event]:
        seen = []
        for event in self.events():
            seen.append(event)
            if event.name == name:
                return seen
        raise AssertionError(f"no {name} in {seen}")


def follow(v1: Api, execution: str, query: str = "", more: bytes = b"") -> list[Event]:
    """All events, and a proper end."""
    with Follower(v1.port, execution, query, more) as follower:
        events = list(follower.events())
        assert follower.code == 1000 and events[-1].name == "end"
        assert follower.line.rest() == b""
    return events


def ask(port: int, request: bytes) -> Answer:
    with Line(port) as line:
        line.send(request)
        return line.answer()


def figure(server: Server, name: str) -> int:
    found = re.search(rf"^{name} (\d+)$", server.get("/metrics").text, re.M)
    assert found, name
    return int(found.group(1))


def wait_below(server: Server, name: str, value: int) -> None:
    wait_until(lambda: figure(server, name) < value, f"{name} is below {value}")


def running(v1: Api) -> str:
    """An execution that goes on until it is cancelled."""
    execution = v1.start(v1.session(), FOREVER, timeout=600)
    v1.wait_output(execution, "on")
    return execution


# ---- the events ----


def test_messages_are_the_server_sent_events(v1: Api) -> None:
    code = "import os, sys\nprint('é')\nprint('e', file=sys.stderr)\nos.write(1, b'\\xff')\n[1, 2]"
    execution = v1.run(v1.session(), code)["id"]
    events = follow(v1, execution)
    assert events == v1.follow(execution)
    assert {e.name for e in events} == {"status", "stdout", "stderr", "output", "result", "end"}


def test_handshake_is_answered_like_any_other_call(v1: Api) -> None:
    with Follower(v1.port, v1.run(v1.session(), "1")["id"]) as follower:
        assert follower.answer.headers["x-request-id"].startswith("req_")


def test_output_comes_while_the_execution_runs(v1: Api) -> None:
    execution = running(v1)
    with Follower(v1.port, execution) as follower:
        assert text_of(follower.until("stdout")) == "on\n"
        assert v1.get(f"/executions/{execution}/status")["status"] == "running"
        v1.post(f"/executions/{execution}/cancel")
        rest = list(follower.events())
        assert follower.code == 1000
    assert [e.name for e in rest] == ["status", "result", "end"]
    assert rest[1].data["status"] == "cancelled"


@pytest.mark.parametrize("how", ["offset", "last_event_id", "header"])
def test_resume_after_every_event(v1: Api, how: str) -> None:
    execution = v1.run(v1.session(), "import sys\nprint('é')\nprint('e', file=sys.stderr)\n7")["id"]
    whole = follow(v1, execution)
    for n, event in enumerate(whole[:-1]):
        query = f"?{how}={event.id}" if how != "header" else ""
        more = f"Last-Event-ID: {event.id}\r\n".encode() if how == "header" else b""
        assert follow(v1, execution, query, more) == whole[n + 1 :]


def test_which_position_counts(v1: Api) -> None:
    execution = v1.run(v1.session(), "print('0123456789')")["id"]
    query = "?offset=2&last_event_id=5"
    assert text_of(follow(v1, execution, query)) == "56789\n"
    assert text_of(follow(v1, execution, query, b"Last-Event-ID: 8\r\n")) == "89\n"
    server_sent = v1.events("GET", f"/executions/{execution}/events{query}")
    assert text_of(list(server_sent)) == "56789\n"


def test_resume_of_a_running_execution(v1: Api) -> None:
    execution = running(v1)
    with Follower(v1.port, execution) as follower:
        head = follower.until("stdout")
    with Follower(v1.port, execution, f"?last_event_id={head[-1].id}") as follower:
        v1.post(f"/executions/{execution}/cancel")
        rest = list(follower.events())
    assert text_of(head) == "on\n" and text_of(rest) == ""
    assert [e.data["status"] for e in rest if e.name == "status"] == ["cancelled"]


# ---- readers that are slow, silent or gone ----


def test_large_output_waits_for_a_slow_reader() -> None:
    """Far more than the server queues for one client (8 MiB), and a result that is larger than that
    by itself.
    """
    size = 24 << 20
    with Server.run("--output-keep", "32M", "--memory", "512M") as server:
        api = Api(server.port)
        code = f"import sys\nsys.stdout.write('y' * {size})\nsys.stdout.flush()"
        execution = api.run(api.session(), code)["id"]
        with Follower(server.port, execution) as follower:
            sock = follower.line.sock
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            for _ in range(20):
                follower.line.buffer += sock.recv(4096)
                assert server.get("/health").status == 200, "it does not delay other clients"
            events = list(follower.events())
            assert follower.code == 1000
        assert text_of(events) == "y" * size
        assert len(events[-2].data["stdout"]) == size and events[-1].name == "end"


def check_leaving(server: Server, execution: str, leave: Callable[[Follower], None]) -> None:
    """Many leave at once, so that the few fibers and connections of others cannot be taken for
    theirs.
    """
    names = ("husk_fibers", "husk_http_connections")
    limits = {name: figure(server, name) + 8 for name in names}
    with contextlib.ExitStack() as stack:
        followers = [stack.enter_context(Follower(server.port, execution)) for _ in range(16)]
        for name in names:
            assert figure(server, name) >= limits[name]
        for follower in followers:
            leave(follower)
        for name in names:
            wait_below(server, name, limits[name])


def leave_by_reset(follower: Follower) -> None:
    reset(follower.line)


def leave_by_end_of_file(follower: Follower) -> None:
    follower.until("stdout")
    follower.line.half_close()
    assert follower.line.rest() == b""


def leave_by_close(follower: Follower) -> None:
    follower.until("stdout")
    follower.line.send(close_frame(1000))
    opcode, data = frame(follower.line)
    assert (opcode, close_code(data)) == (CLOSE, 1000)
    assert follower.line.rest() == b""


def leave_by_message(follower: Follower) -> None:
    follower.until("stdout")
    follower.line.send(masked(TEXT, b"hello"))
    opcode, data = frame(follower.line)
    assert (opcode, close_code(data)) == (CLOSE, 1003)
    follower.line.send(close_frame(1003))
    assert follower.line.rest() == b""


def leave_by_broken_frame(follower: Follower) -> None:
    follower.until("stdout")
    follower.line.send(b"\x81\x02hi")
    opcode, data = frame(follower.line)
    assert (opcode, close_code(data)) == (CLOSE, 1002)
    assert follower.line.rest() == b""


@pytest.mark.parametrize(
    "leave",
    [leave_by_reset, leave_by_end_of_file, leave_by_close, leave_by_message, leave_by_broken_frame],
)
def test_client_that_leaves_is_noticed(
    v1: Api, v1_server: Server, leave: Callable[[Follower], None]
) -> None:
    execution = running(v1)
    check_leaving(v1_server, execution, leave)
    assert v1.get(f"/executions/{execution}/status")["status"] == "running", "goes on without it"


def test_client_that_leaves_with_output_waiting_is_noticed() -> None:
    with Server.run("--output-keep", "32M", "--memory", "512M") as server:
        api = Api(server.port)
        execution = api.run(api.session(), f"print('y' * {24 << 20})")["id"]
        check_leaving(server, execution, leave_by_reset)


def test_ping_is_answered(v1: Api) -> None:
    with Follower(v1.port, running(v1)) as follower:
        follower.until("stdout")
        follower.line.send(masked(PING, b"there?"))
        assert frame(follower.line) == (PONG, b"there?")


def test_server_that_stops_says_so() -> None:
    with Server.run() as server:
        api = Api(server.port)
        with Follower(server.port, running(api)) as follower:
            follower.until("stdout")
            server.process.send_signal(signal.SIGTERM)
            list(follower.events())
            assert follower.code == 1001
            assert follower.line.rest() == b""
        assert server.process.wait(PATIENCE) == 0


# ---- refusals: all of them before any upgrade, as ordinary answers ----


def check_refusal(answer: Answer, status: int, code: str) -> None:
    assert answer.status == status, answer
    assert json.loads(answer.body)["error_code"] == f"Sandbox.{code}"
    assert "sec-websocket-accept" not in answer.headers


def test_unknown_execution(v1: Api) -> None:
    with Line(v1.port) as line:
        line.send(handshake(path_of("exec_none"), KEY))
        check_refusal(line.answer(), 404, "ExecutionNotFound")
        line.send(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert line.answer().status == 200, "the connection still speaks HTTP"


@pytest.mark.parametrize("query", ["offset=x", "last_event_id=0.0.0.9", "unknown=1"])
def test_wrong_parameters(v1: Api, query: str) -> None:
    execution = v1.run(v1.session(), "1")["id"]
    answer = ask(v1.port, handshake(path_of(execution, f"?{query}"), KEY))
    check_refusal(answer, 422, "InvalidParameter")
    assert query.split("=")[0] in json.loads(answer.body)["error_detail"]


ORIGINS = [
    ("http://evil.example", 403),
    ("null", 403),
    ("https://localhost.evil.example", 403),
    ("http://localhost", 101),
]


@pytest.mark.parametrize("origin, status", ORIGINS)
def test_pages_of_other_origins_are_refused(v1: Api, origin: str, status: int) -> None:
    execution = v1.run(v1.session(), "1")["id"]
    request = handshake(path_of(execution), KEY, f"Origin: {origin}\r\n".encode())
    with Line(v1.port) as line:
        line.send(request)
        answer = answers(line.until(b"\r\n\r\n"), heads=True)[0]
    assert answer.status == status


def test_other_hosts_are_refused(v1: Api) -> None:
    """A page whose own name was pointed to this server (DNS rebinding) has an Origin equal to its
    Host.
    """
    execution = v1.run(v1.session(), "1")["id"]
    request = handshake(path_of(execution), KEY, b"Origin: http://evil.example\r\n")
    answer = ask(v1.port, request.replace(b"Host: localhost", b"Host: evil.example"))
    check_refusal(answer, 421, "Forbidden")


HANDSHAKES = [
    ("no key", b"Sec-WebSocket-Key: " + KEY + b"\r\n", b"", 400),
    ("short key", KEY, b"AAAA", 400),
    ("no version", b"Sec-WebSocket-Version: 13\r\n", b"", 400),
    ("HTTP/1.0", b"HTTP/1.1", b"HTTP/1.0", 400),
    ("wants to close", b"Connection: Upgrade", b"Connection: Upgrade, close", 400),
    ("old version", b"Version: 13", b"Version: 8", 426),
    ("no Connection", b"Connection: Upgrade\r\n", b"", 426),
    ("no Upgrade", b"Upgrade: websocket\r\n", b"", 426),
    ("other protocol", b"Upgrade: websocket", b"Upgrade: h2c", 426),
]


@pytest.mark.parametrize(
    "name, part, instead, status", HANDSHAKES, ids=[row[0] for row in HANDSHAKES]
)
def test_bad_handshakes(v1: Api, name: str, part: bytes, instead: bytes, status: int) -> None:
    request = handshake(path_of(v1.run(v1.session(), "1")["id"]), KEY)
    assert request.count(part) == 1
    answer = ask(v1.port, request.replace(part, instead))
    check_refusal(answer, status, "InvalidParameter")
    assert "handshake" in json.loads(answer.body)["error_detail"]
    if status == 426:
        assert answer.headers["sec-websocket-version"] == "13"
        assert answer.headers["upgrade"] == "websocket"
        assert answer.headers["connection"] == "Upgrade"


def test_other_upgrades_are_ignored(v1: Api) -> None:
    execution = v1.run(v1.session(), "print('x')")["id"]
    headers = {"Connection": "Upgrade", "Upgrade": "h2c"}
    events = v1.events("GET", f"/executions/{execution}/events", headers=headers)
    assert text_of(list(events)) == "x\n"


def test_only_the_events_of_an_execution_have_a_websocket(v1: Api) -> None:
    path = f"/sessions/{v1.session()}/execute-stream"
    headers = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": KEY.decode(),
    }
    assert text_of(list(v1.events("POST", path, {"code": "print('x')"}, headers))) == "x\n"
