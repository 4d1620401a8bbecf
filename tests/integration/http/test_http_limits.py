# SPDX-License-Identifier: Apache-2.0
"""Clients that leave, dawdle or come in crowds, and the end of the HTTP server itself."""
from __future__ import annotations

import json
import os
import resource
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from http_raw import HOST, Echo, Line, answers, echo_server, get, reset
from waiting import PATIENCE, wait_until


@pytest.fixture(scope="module")
def echo() -> Iterator[Echo]:
    with echo_server() as server:
        yield server


@pytest.fixture(scope="module")
def hasty() -> Iterator[Echo]:
    """All time limits are short."""
    with echo_server(
        "head_ms=400",
        "idle_ms=400",
        "body_window_ms=400",
        "body_bytes_per_s=1000",
        "write_ms=600",
        "linger_ms=300",
    ) as server:
        yield server


# ---- ends of clients ----


def test_abort_by_the_handler(echo: Echo) -> None:
    before = echo.stats()["gone"]
    with echo.line() as line:
        line.send(get("/abort"))
        assert line.rest() == b""
    echo.wait_for("gone", before + 1)


def test_hangup_is_told(echo: Echo) -> None:
    before = echo.stats()
    line = echo.line()
    line.send(get("/hangup"))
    echo.wait_for("busy", 2)
    line.sock.close()
    echo.wait_for("hangups", before["hangups"] + 1)
    echo.wait_for("gone", before["gone"] + 1)


def test_hangup_behind_pipelined_bytes_is_told(echo: Echo) -> None:
    before = echo.stats()["hangups"]
    with echo.line() as line:
        line.send(get("/hangup"))
        echo.wait_for("busy", 2)
        line.send(get("/x"))
        line.half_close()
        assert line.rest() == b""
    echo.wait_for("hangups", before + 1)


def test_reset_is_noticed(echo: Echo) -> None:
    before = echo.stats()["gone"]
    line = echo.line()
    line.send(get("/later?ms=100000"))
    echo.wait_for("busy", 2)
    reset(line)
    echo.wait_for("gone", before + 1)


def test_reset_after_half_close_is_noticed(echo: Echo) -> None:
    before = echo.stats()["gone"]
    line = echo.line()
    line.send(get("/later?ms=100000"))
    line.half_close()
    echo.wait_for("busy", 2)
    echo.wait_taken()
    reset(line)
    echo.wait_for("gone", before + 1)


def test_answers_to_the_dead_are_harmless(echo: Echo) -> None:
    """The handler of /hold has no on_done: its requests stay valid until they are answered."""
    before = echo.stats()
    lines = [echo.line() for _ in range(6)]
    for line in lines:
        line.send(get("/hold"))
    echo.wait_for("busy", 7)
    for line in lines[:5]:
        reset(line)
    echo.wait_for("open", before["open"] + 1)
    assert echo.get("/release").text == "6\n"
    assert lines[5].answer().text == "released /hold\n"
    lines[5].sock.close()
    echo.wait_for("busy", 1)


# ---- slow clients ----


def statuses_until_ended(hasty: Echo, sent: bytes) -> list[int]:
    """What is answered to a client that sends no more, until the server has had enough of it."""
    start = time.monotonic()
    with hasty.line() as line:
        line.send(sent)
        found = answers(line.rest())
    took = time.monotonic() - start
    assert 0.3 < took < 10, f"ended after {took:.2f} s"
    return [a.status for a in found]


def test_slow_head_is_ended(hasty: Echo) -> None:
    assert statuses_until_ended(hasty, b"GET /x HTTP/1.1\r\nHost: loc") == [408]


def test_drip_of_head_bytes_is_ended(hasty: Echo) -> None:
    """Each byte comes in time; the head as a whole does not."""
    start = time.monotonic()
    with hasty.line() as line:
        try:
            for byte in b"GET /x HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 1000:
                line.send(bytes([byte]))
                if not line.is_quiet(0.02):
                    break
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert time.monotonic() - start < 10
        assert [a.status for a in answers(line.rest())] == [408]


def test_silent_connection_is_ended(hasty: Echo) -> None:
    assert statuses_until_ended(hasty, b"") == []


def test_idle_connection_is_ended(hasty: Echo) -> None:
    assert statuses_until_ended(hasty, get("/x")) == [200]


def test_slow_body_is_ended(hasty: Echo) -> None:
    sent = b"POST /x HTTP/1.1\r\n" + HOST + b"Content-Length: 100\r\n\r\nslow"
    assert statuses_until_ended(hasty, sent) == [408]


def test_steady_body_is_not_ended() -> None:
    """It lasts longer than the time in which a part must come."""
    with echo_server("body_window_ms=1000", "body_bytes_per_s=1000") as echo, echo.line() as line:
        line.send(b"POST /x HTTP/1.1\r\n" + HOST + b"Content-Length: 25000\r\n\r\n")
        for _ in range(25):
            line.send(b"x" * 1000)
            time.sleep(0.1)
        assert line.answer().status == 200


def test_paused_body_is_not_the_clients_fault(hasty: Echo) -> None:
    with hasty.line() as line:
        line.send(b"POST /slow?ms=1500 HTTP/1.1\r\n" + HOST + b"Content-Length: 8\r\n\r\nhalf")
        hasty.wait_taken()
        line.send(b"half")
        assert line.answer().text == "8\n"


def test_reader_that_does_not_read_is_ended(hasty: Echo) -> None:
    before = hasty.stats()
    with hasty.line() as line:
        line.send(get("/stream?n=100000000&piece=65536"))
        hasty.wait_for("gone", before["gone"] + 1)
        hasty.wait_for("timeouts", before["timeouts"] + 1)


def read_slowly(line: Line, step: int) -> None:
    with line:
        line.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        line.send(get("/stream?n=30000000&piece=65536&sized=1"))
        line.until(b"\r\n\r\n")
        for _ in range(30):
            line.exactly(step)
            time.sleep(0.1)
        line.exactly(30000000 - 30 * step)


def test_slow_readers_are_not_ended(tmp_path: Path) -> None:
    """The kernel takes nothing more for far longer than write_ms, for its buffers are large; but
    the clients read.
    """
    path = f"{tmp_path}/s"
    with echo_server("write_ms=1000", f"unix={path}") as server:
        with ThreadPoolExecutor() as pool:
            tcp = pool.submit(read_slowly, server.line(), 32768)
            unix = pool.submit(read_slowly, Line(path), 10000)
        tcp.result()
        unix.result()
        assert server.stats()["timeouts"] == 0


def test_trickling_reader_is_ended() -> None:
    """It takes something all the time, but less than the least rate."""
    with echo_server("write_ms=2000", "body_bytes_per_s=200000") as server:
        before = server.stats()
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            sock.connect(("127.0.0.1", server.port))
            sock.sendall(get("/stream?n=100000000&piece=65536&sized=1"))
            while server.stats()["timeouts"] == before["timeouts"]:
                assert sock.recv(512) != b""  # what the kernel has is still delivered
                time.sleep(0.05)


def test_thinking_handler_is_not_ended(hasty: Echo) -> None:
    with hasty.line() as line:
        line.send(get("/later?ms=1200"))
        assert line.answer().text == "later\n"


def test_refused_client_that_keeps_sending_is_ended(hasty: Echo) -> None:
    with hasty.line() as line:
        line.send(b"GET /%00 HTTP/1.1\r\n" + HOST + b"\r\n")
        assert line.answer().status == 400
        start = time.monotonic()
        try:
            while time.monotonic() - start < 20:
                line.send(b"x" * 1000)
                time.sleep(0.02)
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert time.monotonic() - start < 10


# ---- limits ----


def test_connections_per_address() -> None:
    with echo_server("per_address=5", "connections=100") as server:
        lines = [server.line() for _ in range(5)]
        for line in lines:
            line.send(get("/x"))
            assert line.answer().status == 200
        (full,) = server.ask(get("/x"))
        assert full.status == 429 and int(full.headers["retry-after"]) >= 1
        lines[0].sock.close()
        wait_until(lambda: server.ask(get("/x"))[0].status == 200, "there is room for one")
        for line in lines[1:]:
            line.send(get("/x"))
            assert line.answer().status == 200
            line.sock.close()


def test_connections_together(tmp_path: Path) -> None:
    path = f"{tmp_path}/s"
    with echo_server("connections=3", f"unix={path}") as server:
        lines = [Line(path), Line(path), server.line()]
        for line in lines:
            line.send(get("/x"))
            assert line.answer().status == 200
            line.send(get("/later?ms=100000"))  # an idle one would lose its place
        wait_until(lambda: server.ask(get("/x"))[0].status == 503, "all are at work")
        (full,) = server.ask(get("/x"))
        assert full.status == 503 and int(full.headers["retry-after"]) >= 1
        for line in lines:
            line.sock.close()
        wait_until(lambda: server.ask(get("/x"))[0].status == 200, "there is room again")


def test_running_out_of_descriptors() -> None:
    """Those that fit are served; the server neither spins nor forgets to accept again."""
    with echo_server("files=32") as server:
        with server.line() as first:
            first.send(get("/x"))
            assert first.answer().status == 200
            lines = [server.line() for _ in range(60)]

            def counts() -> dict[str, int]:
                first.send(get("/stats"))
                return json.loads(first.answer().body)  # type: ignore[no-any-return]

            wait_until(lambda: counts()["accept_pauses"] > 0, "descriptors have run out")
            assert counts()["open"] < 32
            used = cpu_seconds(server.process.pid)
            time.sleep(0.5)
            assert cpu_seconds(server.process.pid) - used < 0.2
            for line in lines:
                line.sock.close()

        def is_served() -> bool:
            try:
                return server.get("/hello").status == 200
            except (AssertionError, ConnectionError):
                return False

        wait_until(is_served, "a new client is served")


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_idle_connections_cost_little(echo: Echo) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    before = echo.stats()["rss_kb"]
    lines = [echo.line() for _ in range(800)]
    for line in lines:
        line.send(get("/hello"))
    for line in lines:
        assert line.answer().status == 200
    per_line = (echo.stats()["rss_kb"] - before) / len(lines)
    for line in lines:
        line.sock.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert per_line < 4, f"{per_line:.1f} KB per idle connection"


# ---- peers and the end ----


def test_peer_of_tcp(echo: Echo) -> None:
    assert echo.get("/peer").text == "127.0.0.1 unix=0 pid=0 uid=-1 gid=-1 port=1\n"


def test_peer_of_a_unix_socket(tmp_path: Path) -> None:
    path = f"{tmp_path}/s"
    with echo_server(f"unix={path}"):
        with Line(path) as line:
            line.send(get("/peer"))
            want = f"unix unix=1 pid={os.getpid()} uid={os.getuid()} gid={os.getgid()} port=0\n"
            assert line.answer().text == want


def test_drain_finishes_what_is_in_work() -> None:
    server = Echo()
    idle, busy, fresh = server.line(), server.line(), server.line()
    idle.send(get("/hello"))
    assert idle.answer().status == 200
    busy.send(get("/later?ms=300") + get("/never"))
    server.wait_for("busy", 2)
    assert server.get("/drain").headers["connection"] == "close"
    assert idle.rest() == b""
    fresh.send(get("/hello"))  # connected before, asks only now
    answer = fresh.answer()
    assert (answer.status, answer.headers["connection"]) == (200, "close")
    found = answers(busy.rest())
    assert [a.text for a in found] == ["later\n"]
    assert found[0].headers["connection"] == "close"
    with pytest.raises(ConnectionRefusedError):
        server.line()
    assert server.process.wait(5) == 0
    for line in (idle, busy, fresh):
        line.sock.close()
    assert server.process.stdout is not None
    server.process.stdout.close()


def test_drain_has_a_deadline() -> None:
    server = Echo()
    with server.line() as line:
        line.send(get("/later?ms=100000"))
        server.wait_for("busy", 2)
        start = time.monotonic()
        assert server.get("/drain").status == 200
        assert line.rest() == b""
        assert 1.5 < time.monotonic() - start < 20
    assert server.process.wait(PATIENCE) == 0
    assert server.process.stdout is not None
    server.process.stdout.close()
