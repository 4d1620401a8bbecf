# SPDX-License-Identifier: Apache-2.0
"""A client of /api/v1 for tests. Every answer is held against the contract in api/."""
from __future__ import annotations

import http.client
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import pytest
from husk_server import Server
from places import ROOT
from waiting import PATIENCE, wait_until

sys.path.insert(0, str(ROOT / "tools"))

import openapi_model  # noqa: E402
from openapi_schema import check_value, resolve  # noqa: E402

BASE = "/api/v1"
FINAL = {"completed", "failed", "timeout", "memory_exceeded", "cancelled", "crashed", "lost"}
# A cell that runs until there is a file `go`.
WAITS = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.02)\n"

# Ids that name something else than a session, as they can stand in one segment of a path.
BAD_IDS = ["..", ".", "../../etc/passwd", "a/b", "a\0b", "a b", "ä", "-x", "_x", "x" * 65, "*", "'"]


@dataclass
class Answer:
    status: int
    headers: dict[str, str]  # names in small letters
    raw: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.raw)

    def __getitem__(self, name: str) -> Any:
        return self.body[name]


def exchange(
    connection: http.client.HTTPConnection,
    method: str,
    target: str,
    body: bytes | None = None,
    headers: dict[str, str] | None = None,
) -> Answer:
    """One request and its answer; then the connection is closed."""
    try:
        connection.request(method, target, body, headers or {})
        return answer_to(connection)
    finally:
        connection.close()


def answer_to(connection: http.client.HTTPConnection) -> Answer:
    got = connection.getresponse()
    return Answer(got.status, {k.lower(): v for k, v in got.getheaders()}, got.read())


def unchecked(port: int) -> http.client.HTTPConnection:
    """Sends any target as it is."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection._validate_path = lambda url: None  # type: ignore[attr-defined]
    return connection


@dataclass
class Event:
    name: str
    id: str
    data: Any


class Contract:
    """Says whether an answer is one that api/ describes."""

    def __init__(self) -> None:
        self.contract = openapi_model.load(ROOT / "api")

    def operation(self, method: str, path: str) -> openapi_model.Operation | None:
        parts = path.split("?")[0][1:].split("/")
        found = []
        for op in self.contract.operations:
            segments = op.segments
            if op.method.upper() != method:
                continue
            if len(segments) != len(parts) and not (op.has_tail and len(parts) >= len(segments)):
                continue
            if all(s == p or s.startswith("{") for s, p in zip(segments, parts)):
                found.append((sum(s.startswith("{") for s in segments), op))
        return min(found, key=lambda pair: pair[0])[1] if found else None

    def check(self, method: str, path: str, answer: Answer) -> None:
        op = self.operation(method, path)
        if op is None:
            return
        responses = op.raw["responses"]
        where = f"{method} {op.path}: {answer.status}"
        assert str(answer.status) in responses, f"{where} is not documented: {answer.raw[:300]!r}"
        doc = self.contract.doc
        content = resolve(doc, responses[str(answer.status)]).get("content", {})
        kind = answer.headers.get("content-type", "").split(";")[0]
        assert not content or {kind, "*/*"} & set(content), f"{where} is of the type {kind!r}"
        if "application/json" in content:
            check_value(doc, content["application/json"]["schema"], answer.body, where)
        elif not content:
            assert answer.raw == b"", where


CONTRACT = Contract()


@dataclass
class Api:
    port: int
    host: str = "127.0.0.1"
    made: list[str] = field(default_factory=list)

    # ---- plain calls ----

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE)

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
        raw: bytes | None = None,
        is_known: bool = True,
    ) -> Answer:
        """path is below /api/v1. is_known: it is a route, whose answers the contract describes."""
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        sent = {"Content-Type": "application/json"} if data is not None else {}
        answer = exchange(self.connect(), method, BASE + path, data, {**sent, **(headers or {})})
        if is_known:
            CONTRACT.check(method, BASE + path, answer)
        return answer

    def begin(self, method: str, path: str, body: Any = None) -> http.client.HTTPConnection:
        """Sends a request whose answer is read later, by answer_to()."""
        connection = self.connect()
        data = None if body is None else json.dumps(body)
        headers = {} if body is None else {"Content-Type": "application/json"}
        connection.request(method, BASE + path, data, headers)
        return connection

    def get(self, path: str, **headers: str) -> Answer:
        return self.call("GET", path, headers=headers)

    def post(self, path: str, body: Any = None, key: str | None = None) -> Answer:
        return self.call("POST", path, body, {"Idempotency-Key": key} if key else None)

    # ---- what most tests need ----

    def session(self, **fields: Any) -> str:
        """A new persistent session, unless the fields say otherwise."""
        answer = self.post("/sessions", {"mode": "persistent", **fields})
        assert answer.status == 201, answer.raw
        self.made.append(answer["id"])
        return str(answer["id"])

    def run(self, session: str, code: str | None = None, **fields: Any) -> Any:
        """Runs and returns the execution."""
        body = {**({"code": code} if code is not None else {}), **fields}
        answer = self.post(f"/sessions/{session}/execute-sync", body)
        assert answer.status == 200, answer.raw
        return answer.body

    def start(self, session: str, code: str | None = None, **fields: Any) -> str:
        """Starts and returns the execution's id."""
        body = {**({"code": code} if code is not None else {}), **fields}
        answer = self.post(f"/sessions/{session}/execute", body)
        assert answer.status == 201, answer.raw
        return str(answer["execution_id"])

    def wait_status(self, execution: str, *wanted: str) -> Any:
        def look() -> Any:
            state = self.get(f"/executions/{execution}/status").body
            if state["status"] in wanted:
                return state
            assert state["status"] not in FINAL, state
            return None

        return wait_until(look, f"{execution} is {' or '.join(wanted)}")

    def is_busy(self, session: str) -> bool:
        """An execution that is recorded at its end is not in the list before; its context tells."""
        contexts = self.get(f"/sessions/{session}/contexts")["items"]
        return any(context["state"] != "idle" for context in contexts)

    def wait_busy(self, session: str) -> None:
        wait_until(lambda: self.is_busy(session), f"{session} runs something")

    def wait_taken(self) -> None:
        """Returns when huskd has read what was sent before: its one loop has come round."""
        for _ in range(2):
            self.get("/health/live")

    def wait_output(self, execution: str, text: str) -> None:
        path = f"/executions/{execution}"
        wait_until(lambda: text in self.get(path)["stdout"], f"{execution} writes {text!r}")

    # ---- server-sent events ----

    def events(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
    ) -> Iterator[Event]:
        """Events as they arrive. Closing the iterator hangs up."""
        data = json.dumps(body).encode() if body is not None else None
        sent = {"Content-Type": "application/json"} if data is not None else {}
        connection = self.connect()
        try:
            connection.request(method, BASE + path, body=data, headers={**sent, **(headers or {})})
            got = connection.getresponse()
            assert got.status == 200, got.read()
            assert got.getheader("Content-Type", "").startswith("text/event-stream")
            yield from _parse_events(got)
        finally:
            connection.close()

    def follow(self, execution: str, offset: str | None = None, last: str | None = None) -> Any:
        query = f"?offset={offset}" if offset is not None else ""
        headers = {"Last-Event-ID": last} if last is not None else {}
        return list(self.events("GET", f"/executions/{execution}/events{query}", headers=headers))


@pytest.fixture(scope="module")
def v1_server() -> Iterator[Server]:
    with Server.run() as running:
        yield running


@pytest.fixture
def v1(v1_server: Server) -> Iterator[Api]:
    """A client of the module's server. Sessions that a test made by session() end with it."""
    api = Api(v1_server.port)
    yield api
    for session in api.made:
        api.call("DELETE", f"/sessions/{session}")


def _parse_events(response: http.client.HTTPResponse) -> Iterator[Event]:
    lines: list[str] = []
    while True:
        raw = response.readline()
        if raw == b"":
            assert lines == [], f"the stream ends within an event: {lines}"
            return
        line = raw.decode().rstrip("\n")
        if line != "":
            lines.append(line)
            continue
        fields = dict(entry.split(": ", 1) for entry in lines if not entry.startswith(":"))
        lines = []
        if fields:
            yield Event(fields["event"], fields["id"], json.loads(fields["data"]))


def text_of(events: list[Event], name: str = "stdout") -> str:
    return "".join(e.data["text"] for e in events if e.name == name)


def segment(text: str) -> str:
    """Any text as one segment of a path."""
    return quote(text, safe="")


def check_bad_ids(api: Api, method: str, path: str, body: Any = None) -> None:
    """None of them is looked up: the server, the routes or the check of the id refuse it."""
    for bad in BAD_IDS:
        answer = api.call(method, path.format(segment(bad)), body, is_known=False)
        assert answer.status in (400, 404, 405, 422), (bad, answer)
        assert answer["error_code"] in ("Sandbox.InvalidParameter", "Sandbox.NotFound"), (
            bad,
            answer,
        )


def check_error(answer: Answer, status: int, code: str, *words: str) -> None:
    assert answer.status == status, answer.raw
    assert answer["error_code"] == f"Sandbox.{code}", answer.raw
    assert answer["request_id"] == answer.headers["x-request-id"]
    for word in words:
        assert word in answer["error_detail"], answer.raw
