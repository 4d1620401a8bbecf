# SPDX-License-Identifier: Apache-2.0
"""A client of /workspace/se for tests. Every answer is held against the contract in api/."""
from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from husk_server import Server
from v1_client import CONTRACT, Answer, exchange, unchecked

BASE = "/workspace/se"


@dataclass
class Se:
    """A client of the dialect. Every answer is held against the contract."""

    port: int

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        raw: bytes | None = None,
        headers: dict[str, str] | None = None,
        is_checked: bool = True,
    ) -> Answer:
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        sent = {"Content-Type": "application/json"} if data is not None else {}
        line = unchecked(self.port)
        answer = exchange(line, method, BASE + path, data, {**sent, **(headers or {})})
        if is_checked:
            CONTRACT.check(method, BASE + path, answer)
        return answer

    def get(self, path: str, **options: Any) -> Answer:
        return self.call("GET", path, **options)

    def post(self, path: str, body: Any = None, **options: Any) -> Answer:
        return self.call("POST", path, body, **options)

    def ok(self, path: str, body: Any) -> Any:
        answer = self.post(path, body)
        assert answer.status == 200, answer.raw
        return answer.body

    def python(self, sid: str, code: str, **fields: Any) -> Any:
        return self.ok(f"/execute_code/{sid}", {"code": code, **fields})

    def create(self, sid: str, name: str, content: str, **fields: Any) -> Any:
        return self.ok(f"/create/{sid}", {"filename": name, "content": content, **fields})

    def handler(self, code: str, event: Any = None, **fields: Any) -> Answer:
        body = {"handler_code": code, **({"event": event} if event is not None else {}), **fields}
        return self.post("/v2/execute_code", body)


@pytest.fixture(scope="module")
def se(server: Server) -> Iterator[Se]:
    client = Se(server.port)
    daemon = server.pid_of_huskd()
    yield client
    assert server.pid_of_huskd() == daemon, f"huskd died:\n{server.output}"
    client.post("/cleanup-all", {"force": True})


@pytest.fixture
def sid() -> str:
    """An id that was never used."""
    return f"s-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="module")
def shared() -> str:
    return f"shared-{uuid.uuid4().hex[:12]}"


def check_detail(answer: Answer, status: int, code: str, *words: str) -> None:
    assert answer.status == status, answer.raw
    detail = answer["detail"]
    assert detail["error_code"] == f"Sandbox.{code}", answer.raw
    for word in words:
        assert word in detail["error_detail"], answer.raw


def check_422(answer: Answer, *path: str) -> None:
    """A list of {loc, msg, type}, as FastAPI writes it."""
    assert answer.status == 422, answer.raw
    assert list(path) in [row["loc"] for row in answer["detail"]], answer.raw
