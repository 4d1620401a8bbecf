# SPDX-License-Identifier: Apache-2.0
"""Which clients get a connection when there are too many: no client takes the places of all others, those on
this machine have a few for themselves, and root gets in by the unix socket in any case.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import wraps

from http_raw import Echo, Line, echo_server, get
from waiting import PATIENCE, wait_until

CLONE_NEWNET = 0x40000000
SETRESUID = 117  # x86-64; of one thread, which the C library would not do
FAR = ["10.77.0.1", "10.77.0.2", "10.77.0.3", "10.77.0.4", "10.77.0.5"]

libc = ctypes.CDLL(None, use_errno=True)


def in_own_network(test: Callable[[], None]) -> Callable[[], None]:
    """The test and what it starts see a network of their own, with far addresses in it."""

    def enter() -> None:
        assert libc.unshare(CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        for address in FAR:
            subprocess.run(["ip", "addr", "add", f"{address}/32", "dev", "lo"], check=True)
        test()

    @wraps(test)
    def run() -> None:
        with ThreadPoolExecutor(1) as pool:  # namespaces belong to threads
            pool.submit(enter).result()

    return run


class From(Line):
    """A connection from a certain address."""

    def __init__(self, address: str, port: int) -> None:
        self.sock = socket.create_connection(
            ("127.0.0.1", port), timeout=PATIENCE, source_address=(address, 0)
        )
        self.buffer = b""


def line_of_account(uid: int, path: str) -> Line:
    """A connection of another account."""

    def connect() -> Line:
        assert libc.syscall(SETRESUID, -1, uid, -1) == 0, os.strerror(ctypes.get_errno())
        return Line(path)

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(connect).result()


def status(line: Line) -> int:
    line.send(get("/hello"))
    return line.answer().status


def is_busy(line: Line) -> bool:
    """It got in and has work from now on; else it was refused and is closed."""
    line.send(get("/hello"))
    if line.answer().status != 200:
        line.sock.close()
        return False
    line.send(get("/later?ms=100000"))
    # Closing it resets it: the server need not think that a client still waits for the answer.
    line.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return True


def serves(server: Echo) -> bool:
    try:
        found = server.ask(get("/hello"))
    except OSError:  # refused before it could ask
        return False
    return [answer.status for answer in found] == [200]


@contextmanager
def unix_server(*options: str) -> Iterator[tuple[Echo, str]]:
    """Its socket is there for every account."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        path = f"{folder}/s"
        with echo_server(*options, f"unix={path}") as server:
            os.chmod(path, 0o777)
            yield server, path


def test_addresses_of_loopback_are_one_client() -> None:
    with echo_server("per_address=5", "connections=100") as server, ExitStack() as stack:
        for last in range(1, 6):
            assert status(stack.enter_context(From(f"127.0.0.{last}", server.port))) == 200
        with From("127.0.0.6", server.port) as line:
            assert status(line) == 429
        stack.close()
        wait_until(lambda: serves(server), "they have left")


def test_accounts_have_a_share_each() -> None:
    with unix_server("per_address=3", "connections=100") as (server, path), ExitStack() as stack:
        for _ in range(3):
            assert status(stack.enter_context(line_of_account(12345, path))) == 200
        with line_of_account(12345, path) as line:
            assert status(line) == 429
        with line_of_account(12346, path) as line:
            assert status(line) == 200
        for _ in range(8):  # root shares its places with no other client
            assert status(stack.enter_context(Line(path))) == 200


@in_own_network
def test_four_addresses_do_not_keep_others_out() -> None:
    """All their connections are at work, so there is none to close."""
    with unix_server("per_address=16", "connections=64") as (server, path), ExitStack() as stack:
        taken = 0
        for address in FAR[:4]:
            for _ in range(16):
                taken += is_busy(stack.enter_context(From(address, server.port)))
        assert taken == 60  # a sixteenth is not theirs
        with From(FAR[4], server.port) as line:
            assert status(line) == 503
        assert [is_busy(stack.enter_context(server.line())) for _ in range(4)] == [True] * 4
        with server.line() as line:
            assert status(line) == 503  # now there is none left,
        with line_of_account(12345, path) as line:
            assert status(line) == 503
        for _ in range(8):  # but for the operator
            assert status(stack.enter_context(Line(path))) == 200
        stack.close()
        wait_until(lambda: serves(server), "they have left")


@in_own_network
def test_who_has_the_most_idle_connections_loses_one() -> None:
    with unix_server("per_address=40", "connections=64") as (server, path), ExitStack() as stack:
        near = [stack.enter_context(server.line()) for _ in range(4)]
        small = [stack.enter_context(From(FAR[0], server.port)) for _ in range(20)]
        large = [stack.enter_context(From(FAR[1], server.port)) for _ in range(40)]
        for line in (*near, *small, *large):
            assert status(line) == 200
        newcomers = [stack.enter_context(From(FAR[2], server.port)) for _ in range(5)]
        assert [status(line) for line in newcomers] == [200] * 5
        assert [line.rest() for line in large[:5]] == [b""] * 5  # those that waited for longest
        for line in (*near, *small, *large[5:], *newcomers):
            assert status(line) == 200
        assert status(stack.enter_context(server.line())) == 200
        assert status(stack.enter_context(Line(path))) == 200  # one of those beyond all
        near[0].send(get("/stats"))
        assert b'"evicted":6' in near[0].answer().body
        stack.close()
        wait_until(lambda: serves(server), "they have left")


@in_own_network
def test_the_largest_client_does_not_push_others_out() -> None:
    with echo_server("per_address=100", "connections=32") as server, ExitStack() as stack:
        small = [stack.enter_context(From(FAR[0], server.port)) for _ in range(5)]
        large = [stack.enter_context(From(FAR[1], server.port)) for _ in range(25)]
        for line in (*small, *large):
            assert status(line) == 200
        more = [stack.enter_context(From(FAR[1], server.port)) for _ in range(10)]
        assert [status(line) for line in more] == [200] * 10  # in the place of its own
        assert [status(line) for line in small] == [200] * 5
        assert [line.rest() for line in large[:10]] == [b""] * 10
        stack.close()
        wait_until(lambda: serves(server), "they have left")
