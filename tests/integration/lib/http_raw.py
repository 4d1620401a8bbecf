# SPDX-License-Identifier: Apache-2.0
"""HTTP by bare sockets, and the test server of tests/lib/http, for suites that send what no client
would.
"""
from __future__ import annotations

import contextlib
import json
import re
import select
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass

from places import BUILD
from waiting import PATIENCE, wait_until

HOST = b"Host: localhost\r\n"
MIB = 1 << 20


@dataclass
class Answer:
    status: int
    headers: dict[str, str]  # names in small letters
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


def _dechunk(data: bytes) -> tuple[bytes, bytes]:
    body = b""
    while True:
        line, _, data = data.partition(b"\r\n")
        size = int(line, 16)
        body += data[:size]
        assert data[size : size + 2] == b"\r\n"
        data = data[size + 2 :]
        if size == 0:
            return body, data


def answers(data: bytes, heads: bool = False) -> list[Answer]:
    """Splits what a connection said. heads: they answer HEAD requests, so there are no bodies."""
    found = []
    while data:
        head, gap, data = data.partition(b"\r\n\r\n")
        assert gap, f"no complete head: {head!r}"
        lines = head.decode("latin-1").split("\r\n")
        match = re.fullmatch(r"HTTP/1\.1 (\d{3}) .+", lines[0])
        assert match, f"bad status line {lines[0]!r}"
        status = int(match.group(1))
        headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(": ")
            assert name.lower() not in headers, f"{name} twice"
            headers[name.lower()] = value
        body = b""
        if heads or status in (100, 101, 204, 304):
            if status == 101:
                body, data = data, b""
        elif headers.get("transfer-encoding") == "chunked":
            body, data = _dechunk(data)
        elif "content-length" in headers:
            size = int(headers["content-length"])
            assert len(data) >= size, f"body cut off: {len(data)} of {size}"
            body, data = data[:size], data[size:]
        else:
            body, data = data, b""
        found.append(Answer(status, headers, body))
    return found


class Line:
    """One connection."""

    def __init__(self, address: int | str) -> None:
        if isinstance(address, int):
            self.sock = socket.create_connection(("127.0.0.1", address), timeout=PATIENCE)
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        else:
            self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.sock.settimeout(PATIENCE)
            self.sock.connect(address)
        self.buffer = b""

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def send_in_steps(self, data: bytes, step: int) -> None:
        for at in range(0, len(data), step):
            self.sock.sendall(data[at : at + step])

    def send_until_stuck(self, data: bytes, most: int) -> int:
        """Repeats the data until the kernel takes no more for a while; returns how many bytes it took."""
        self.sock.setblocking(False)
        sent, left, quiet = 0, b"", time.monotonic()
        while time.monotonic() - quiet < 0.3 and sent < most:
            left = left or data
            try:
                n = self.sock.send(left)
                sent, left, quiet = sent + n, left[n:], time.monotonic()
            except BlockingIOError:
                time.sleep(0.01)
        return sent

    def half_close(self) -> None:
        self.sock.shutdown(socket.SHUT_WR)

    def more(self) -> bytes:
        got = self.sock.recv(65536)
        self.buffer += got
        return got

    def until(self, mark: bytes) -> bytes:
        while mark not in self.buffer:
            assert self.more(), f"closed before {mark!r}: {self.buffer!r}"
        got, _, self.buffer = self.buffer.partition(mark)
        return got + mark

    def exactly(self, n: int) -> bytes:
        got = bytearray(self.buffer[:n])
        self.buffer = self.buffer[n:]
        while len(got) < n:
            more = self.sock.recv(min(n - len(got), 1 << 20))
            assert more, f"closed after {len(got)} of {n}"
            got += more
        return bytes(got)

    def answer(self, head_only: bool = False) -> Answer:
        head = self.until(b"\r\n\r\n")
        found = re.search(rb"\r\ncontent-length: (\d+)", head, re.I)
        body = b""
        if not head_only and re.search(rb"\r\ntransfer-encoding: chunked", head, re.I):
            while not body.endswith(b"0\r\n\r\n"):
                body += self.until(b"\r\n")
        elif found and not head_only:
            body = self.exactly(int(found.group(1)))
        return answers(head + body, heads=head_only)[0]

    def rest(self) -> bytes:
        """Everything until the other side closes."""
        got = bytearray(self.buffer)
        self.buffer = b""
        with contextlib.suppress(ConnectionResetError):
            while more := self.sock.recv(1 << 20):
                got += more
        return bytes(got)

    def is_quiet(self, seconds: float) -> bool:
        """True if nothing comes and the line stays open for so long."""
        ready, _, _ = select.select([self.sock], [], [], seconds)
        return not ready and not self.buffer


class Echo:
    """The test server as a process of its own."""

    def __init__(self, *options: str) -> None:
        path = BUILD / "tests" / "lib" / "http" / "http_echo"
        assert path.exists(), f"{path} is not built (HUSK_BUILD names the build folder)"
        self.process = subprocess.Popen([path, *options], stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        word, port = self.process.stdout.readline().split()
        assert word == b"port"
        self.port = int(port)

    def line(self) -> Line:
        return Line(self.port)

    def ask(self, request: bytes, end: bool = True) -> list[Answer]:
        """Sends bytes, ends the sending side, and returns all answers until the server closes."""
        with self.line() as line:
            line.send(request)
            if end:
                line.half_close()
            return answers(line.rest())

    def get(self, target: str, *fields: str) -> Answer:
        lines = "".join(f"{field}\r\n" for field in fields)
        found = self.ask(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n".encode())
        assert len(found) == 1, found
        return found[0]

    def stats(self) -> dict[str, int]:
        counts: dict[str, int] = json.loads(self.get("/stats").body)
        return counts

    def wait_taken(self) -> None:
        """Returns when the server has read what was sent before: its one loop has come round."""
        for _ in range(2):
            self.stats()

    def wait_for(self, name: str, value: int) -> None:
        wait_until(
            lambda: self.stats()[name] == value, lambda: f"{name} is {value}: {self.stats()}"
        )

    def stop(self) -> None:
        """It must still be alive, must end when asked, and must have lost no memory on the way."""
        assert self.process.poll() is None, f"the server died with {self.process.returncode}"
        with self.line() as line:
            line.send(b"GET /drain HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert line.answer().status == 200
        try:
            assert self.process.wait(PATIENCE) == 0
        finally:
            if self.process.poll() is None:
                self.process.send_signal(signal.SIGKILL)
                self.process.wait()


@contextlib.contextmanager
def echo_server(*options: str) -> Iterator[Echo]:
    server = Echo(*options)
    try:
        yield server
        server.stop()
    finally:
        if server.process.poll() is None:
            server.process.kill()
        server.process.wait()
        assert server.process.stdout is not None
        server.process.stdout.close()


def get(target: str, more: bytes = b"") -> bytes:
    return b"GET " + target.encode() + b" HTTP/1.1\r\n" + HOST + more + b"\r\n"


def post(target: str, body: bytes, more: bytes = b"") -> bytes:
    head = b"POST " + target.encode() + b" HTTP/1.1\r\n" + HOST + more
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


def reset(line: Line) -> None:
    """Closes so that the other side gets an error rather than an end of file."""
    line.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    line.sock.close()
