# SPDX-License-Identifier: Apache-2.0
"""huskd's end of a worker's socket, for tests: starts the real worker process and speaks the
protocol.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterator

CALL, CHAT, HTTP, BODY, END, CANCEL, PING, DRAIN = range(1, 9)
READY, FAILED, TEXT, EVENT, DONE, ERROR, HTTP_HEAD, HTTP_BODY, HTTP_END, PONG, BEGUN = range(64, 75)
RAW = (HTTP_BODY, HTTP_END, PONG, BEGUN)

HEAD = struct.Struct("<III")
PATIENCE = 60.0


class Peer:
    """A worker. Must be closed; `with` does it."""

    def __init__(self, file: Path, name: str, main: bool = False) -> None:
        self.sock, theirs = socket.socketpair()
        self.sock.settimeout(PATIENCE)
        self.errors = open(file.parent / f"{name}.stderr", "w+")
        command = [sys.executable, "-m", "husk.agents.worker", "--file", str(file), "--name", name]
        command += ["--fd", str(theirs.fileno()), *(["--main"] if main else [])]
        environment = {**os.environ, "HUSK_AGENT_WORKER": name}
        self.process = subprocess.Popen(
            command,
            pass_fds=(theirs.fileno(),),
            env=environment,
            stdin=subprocess.DEVNULL,
            stderr=self.errors,
            cwd=file.parent,
        )
        theirs.close()
        self._data = b""
        self._last = 0
        self.begun: list[int] = []  # requests that the agent has begun, in order

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: Any) -> None:
        self.sock.close()
        try:
            self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.process.wait()
            self.errors.close()

    def said(self) -> str:
        """What it wrote to standard error."""
        self.errors.seek(0)
        return self.errors.read()

    def send(self, kind: int, request: int, payload: bytes = b"") -> None:
        self.sock.sendall(HEAD.pack(len(payload), kind, request) + payload)

    def call(
        self, query: str, stream: Any = False, session: str = "default", request: int = 0
    ) -> int:
        """Sends a CALL and returns its id."""
        return self._begin(CALL, {"query": query, "session_id": session, "stream": stream}, request)

    def chat(self, data: Any, stream: Any = False, session: str = "default") -> int:
        return self._begin(CHAT, {"data": data, "session_id": session, "stream": stream}, 0)

    def http(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> int:
        head = {"method": method, "path": path, "query": "", "headers": list(headers.items())}
        request = self._begin(HTTP, head, 0)
        self.send(BODY, request, body)
        self.send(END, request)
        return request

    def _begin(self, kind: int, value: dict[str, Any], request: int) -> int:
        self._last = request or self._last + 1
        self.send(kind, self._last, json.dumps(value).encode())
        return self._last

    def next(self) -> tuple[int, int, Any]:
        """The next frame: type, id, payload. EOFError when the worker has gone."""
        while True:
            if len(self._data) >= HEAD.size:
                length, kind, request = HEAD.unpack_from(self._data)
                end = HEAD.size + length
                if len(self._data) >= end:
                    payload = self._data[HEAD.size : end]
                    self._data = self._data[end:]
                    if kind == BEGUN:
                        self.begun.append(request)
                        continue
                    return kind, request, payload if kind in RAW else json.loads(payload)
            data = self.sock.recv(1 << 20)
            if not data:
                raise EOFError
            self._data += data

    def ready(self) -> dict[str, Any]:
        kind, request, value = self.next()
        assert (kind, request) == (READY, 0), (kind, value, self.said())
        return value  # type: ignore[no-any-return]

    def until_last(self, request: int) -> Iterator[tuple[int, Any]]:
        """The frames of one request, its last one included; those of others must not come."""
        while True:
            kind, of, value = self.next()
            assert of == request
            yield kind, value
            if kind in (DONE, ERROR, HTTP_END):
                return

    def ask(self, query: str, **how: Any) -> str:
        """A whole CALL; AssertionError unless it is answered."""
        kind, value = list(self.until_last(self.call(query, **how)))[-1]
        assert kind == DONE, value
        return value["response"]  # type: ignore[no-any-return]
