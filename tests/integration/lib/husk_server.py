# SPDX-License-Identifier: Apache-2.0
"""A real daemon for tests: one per test module, on a free loopback port, with a data directory of
its own.

    from husk_server import Server, server

    def test_it(server: Server) -> None:
        assert server.get("/health").json == {"status": "healthy"}

A test that needs other settings starts one itself:
`with Server.run("--ast-policy", "false") as server: ...`.
"""
from __future__ import annotations

import http.client
import json
import os
import random
import shutil
import signal
import socket
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from places import BIN
from process import Heard
from procfs import below
from waiting import PATIENCE, wait_until


@dataclass
class Answer:
    """The answer to one request."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @cached_property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=PATIENCE)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(str(self.path))


_claims: list[socket.socket] = []


def free_port() -> int:
    """A port of loopback that no other test gets while this process lives: an abstract unix socket
    claims it. It lies below those that the kernel gives to clients.
    """
    for port in random.sample(range(20000, 32000), 1000):
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0husk-test-port-{port}")
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            claim.close()
            continue
        _claims.append(claim)
        return port
    raise AssertionError("no port is free")


class Server(Heard):
    """husk up as a child process. stop() ends it as Ctrl-C does, start() starts it again on the
    same data.
    """

    programs = BIN
    variables: Mapping[str, str] = {}  # besides those that every server gets
    before: Sequence[str] = ()  # a program that becomes husk

    def __init__(self, *flags: str) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="husk-test-"))
        self.folder.chmod(0o755)  # huskd is another user than root
        self.data = self.folder / "data"
        self.templates = self.folder / "templates"  # the operator's
        self.templates.mkdir()
        self.socket = self.data / "husk.sock"
        self.port = free_port()
        self.flags = flags

    @property
    def store(self) -> Path:
        """What huskd writes: husk.db, spool, templates, workspaces. The rest of the data folder is the
        supervisor's.
        """
        return self.data / "store"

    def make_store(self) -> None:
        """As the supervisor would, for a test that puts files there before the first start."""
        self.data.mkdir(exist_ok=True)
        if not self.store.exists():
            self.store.mkdir(mode=0o700)
            if os.geteuid() == 0:
                shutil.chown(self.store, "husk", "husk")

    @classmethod
    @contextmanager
    def run(cls, *flags: str) -> Iterator[Server]:
        server = cls(*flags)
        try:
            server.start()
            yield server
        finally:
            server.remove()

    # ---- life ----

    def start(self) -> None:
        """Returns when the server takes work."""
        environment = {
            k: v for k, v in os.environ.items() if not k.startswith(("HUSK_", "SANDBOX_"))
        } | dict(self.variables)
        address = f"127.0.0.1:{self.port}"
        # fmt: off
        self.launch(*self.before, self.programs / "husk", "up", "--data", self.data, "--listen", address,
                    "--templates", self.templates, "--socket", self.socket, *self.flags, env=environment)
        # fmt: on
        self.wait_ready()

    def wait_ready(self) -> None:
        wait_until(self.is_ready, lambda: f"husk up is ready:\n{self.output}")

    def is_ready(self) -> bool:
        code = self.process.poll()
        if code is not None:
            self.listener.join(PATIENCE)
        assert code is None, f"husk up ended with {code}:\n{self.output}"
        try:
            return self.get("/api/v1/health/ready").status == 200
        except (OSError, http.client.HTTPException):
            return False

    def wait_runs(self) -> None:
        """Like wait_ready(), also with a full disk: programs run in sandboxes."""
        wait_until(self.runs, lambda: f"sandboxes can be made:\n{self.output}")

    def runs(self) -> bool:
        try:
            parts = self.get("/api/v1/health/detailed").json["components"]
            return bool(parts["engine"]["status"] == "healthy")
        except (OSError, http.client.HTTPException):
            return False

    def pid_of_huskd(self) -> int:
        """The daemon itself, which is a descendant of husk up."""
        for process in below(self.process.pid):
            if process.name == "huskd":
                return process.pid
        raise AssertionError(f"there is no huskd below {self.process.pid}:\n{self.output}")

    def kill_huskd(self) -> int:
        """kill -9, as a crash would be. Returns the pid that it had."""
        pid = self.pid_of_huskd()
        os.kill(pid, signal.SIGKILL)
        return pid

    def remove(self) -> None:
        if self.is_running():
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    # ---- requests ----

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        connection: http.client.HTTPConnection | None = None,
    ) -> Answer:
        """One request on a connection of its own. What is not bytes is sent as JSON."""
        sent = dict(headers or {})
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        own = connection or self.connection()
        try:
            own.request(method, path, body, sent)
            answer = own.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            if connection is None:
                own.close()

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        return self.request("GET", path, headers=headers)

    def post(self, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        return self.request("POST", path, body, headers)

    def put(self, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        return self.request("PUT", path, body, headers)

    def delete(self, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        return self.request("DELETE", path, headers=headers)

    def over_socket(self, method: str, path: str, body: Any = None) -> Answer:
        connection = UnixConnection(self.socket)
        try:
            return self.request(method, path, body, connection=connection)
        finally:
            connection.close()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server.run() as running:
        yield running


@pytest.fixture
def one() -> Iterator[Server]:
    """For one test. Pools shrink again quickly, so that levels can be compared."""
    with Server.run("--pool-idle", "1s") as running:
        yield running
