# SPDX-License-Identifier: Apache-2.0
"""The server has no place for a run, or loses it: every dialect answers with a typed error that
says whether anything had begun, and what has a record ends with a cause that is not the user's.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from audit import wait_tree
from disk_faults import wait_successor
from husk_server import Server, one  # noqa: F401
from v1_client import Api, answer_to, check_error
from waiting import wait_until

PATIENCE_MS = 300
LEAST_MS = PATIENCE_MS - 5  # its clock ticks in milliseconds
LOOP = "print('on', flush=True)\nwhile True: pass"
SLEEP = "import time\ntime.sleep(60)\n"


@pytest.fixture(scope="module")
def slow() -> Iterator[Server]:
    """One place, and those in line wait for a moment."""
    with Server.run("--max-executions", "1", "--queue-timeout", f"{PATIENCE_MS}ms") as running:
        yield running


@pytest.fixture(scope="module")
def full() -> Iterator[Server]:
    """One place, and no line."""
    with Server.run("--max-executions", "1", "--queue-length", "0") as running:
        yield running


def hold_the_place(api: Api) -> str:
    execution = api.start(api.session(), LOOP, timeout=600)
    api.wait_output(execution, "on")
    return execution


@pytest.fixture
def busy(slow: Server) -> Iterator[Api]:
    api = Api(slow.port)
    execution = hold_the_place(api)
    yield api
    api.post(f"/executions/{execution}/cancel")


def check_unbegun(fault: dict[str, Any], waited_ms: float) -> None:
    assert fault["begun"] is False and fault["retryable"] is True, fault
    assert waited_ms <= fault["queue_ms"] < waited_ms + 20000, fault


def check_record(api: Api, execution: str) -> None:
    record = api.get(f"/executions/{execution}").body
    assert record["status"] == "failed" and record["started_at"] is None, record
    assert record["termination"]["cause"] == "server", record
    assert record["error"]["type"] == "limit_reached", record
    assert record["metrics"]["queue_ms"] >= LEAST_MS, record
    fault = record["fault"]
    assert (fault["status"], fault["error_code"]) == (429, "Sandbox.TooManyRequests")
    assert fault["begun"] is False and fault["retryable"] is True


# ---- no place in time ----


def test_execute_sync(busy: Api) -> None:
    answer = busy.post(f"/sessions/{busy.session()}/execute-sync", {"code": "1"})
    check_error(answer, 429, "TooManyRequests", "no place")
    assert int(answer.headers["retry-after"]) >= 1
    check_unbegun(answer.body, LEAST_MS)
    check_record(busy, answer["execution_id"])


def test_execute(busy: Api) -> None:
    execution = busy.start(busy.session(), "1")
    busy.wait_status(execution, "failed")
    check_record(busy, execution)


def test_execute_stream(busy: Api) -> None:
    events = list(busy.events("POST", f"/sessions/{busy.session()}/execute-stream", {"code": "1"}))
    result = next(event.data for event in events if event.name == "result")
    assert result["fault"]["error_code"] == "Sandbox.TooManyRequests"
    check_record(busy, result["execution_id"])


def test_run(busy: Api, slow: Server) -> None:
    answer = slow.post("/run", {"code": "print(1)"})
    assert answer.status == 429 and int(answer.headers["Retry-After"]) >= 1, answer.text
    assert answer.json["error_code"] == "Sandbox.TooManyRequests" and answer.json["error"]
    check_unbegun(answer.json, LEAST_MS)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("execute_code/mine", {"code": "1"}),
        ("execute/mine", {"command": "true"}),
        ("v2/execute_code", {"handler_code": "def handler(event): return 1"}),
    ],
)
def test_workspace_se(busy: Api, slow: Server, path: str, body: Any) -> None:
    answer = slow.post(f"/workspace/se/{path}", body)
    assert answer.status == 503 and int(answer.headers["Retry-After"]) >= 1, answer.text
    detail = answer.json["detail"]
    assert detail["error_code"] == "Sandbox.TooManyRequestsExection", detail
    assert "code" not in detail["solution"], "it is not the code that is to be corrected"
    check_unbegun(detail, LEAST_MS)


# ---- a full line ----


def test_a_full_line_is_told_at_once(full: Server) -> None:
    api = Api(full.port)
    session = api.session()
    execution = hold_the_place(api)
    try:
        for route in ("execute", "execute-sync", "execute-stream"):
            answer = api.post(f"/sessions/{session}/{route}", {"code": "1"})
            check_error(answer, 429, "TooManyRequests")
            check_unbegun(answer.body, 0)
        check_unbegun(full.post("/run", {"code": "1"}).json, 0)
        for path, body in (
            ("execute_code/mine", {"code": "1"}),
            ("v2/execute_code", {"handler_code": "def handler(event): return 1"}),
        ):
            refused = full.post(f"/workspace/se/{path}", body)
            assert refused.status == 503, refused.text
            check_unbegun(refused.json["detail"], 0)
        assert api.get(f"/sessions/{session}/executions")["total"] == 0
    finally:
        api.post(f"/executions/{execution}/cancel")


# ---- asked again ----


@pytest.mark.parametrize("mode", ["persistent", "ephemeral"])
def test_the_same_request_begins_later(slow: Server, mode: str) -> None:
    """What never began uses up neither its key nor an ephemeral session."""
    api = Api(slow.port)
    session = api.session(mode=mode)
    path, body = f"/sessions/{session}/execute-sync", {"code": "print(6 * 7)"}
    place = hold_the_place(api)
    first = api.post(path, body, key="again")
    assert first.status == 429, first.raw
    api.post(f"/executions/{place}/cancel")
    then = api.post(path, body, key="again")
    assert then.status == 200 and then["stdout"] == "42\n", then.raw
    assert then["execution_id"] != first["execution_id"]
    assert api.post(path, body, key="again")["execution_id"] == then["execution_id"]
    listed = api.get(f"/sessions/{session}/executions")["items"]
    assert [item["status"] for item in listed] == ["completed", "failed"]
    if mode == "ephemeral":
        wait_until(
            lambda: bool(api.get(f"/sessions/{session}")["status"] == "completed"), "it is spent"
        )


def test_what_never_began_is_known_after_a_restart(slow: Server) -> None:
    api = Api(slow.port)
    session = api.session(mode="ephemeral")
    path, body = f"/sessions/{session}/execute-sync", {"code": "print(6 * 7)"}
    place = hold_the_place(api)
    assert api.post(path, body, key="again").status == 429
    slow.kill_huskd()
    slow.wait_ready()
    api.post(f"/executions/{place}/cancel")
    then = api.post(path, body, key="again")
    assert then.status == 200 and then["stdout"] == "42\n", then.raw


# ---- the launcher ----


def ticks_of(pid: int) -> int:
    """Processor time in hundredths of a second."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has ended
        return 0
    return int(fields[11]) + int(fields[12])


def test_launcher_killed_while_it_runs(one: Server) -> None:
    """What may have run is told apart; a run in a box of its own can be repeated all the same."""
    api = Api(one.port)
    session = api.session()
    asked = api.begin("POST", f"/sessions/{session}/execute-sync", {"code": SLEEP, "timeout": 60})
    api.wait_busy(session)
    alone = one.connection()
    headers = {"Content-Type": "application/json"}
    alone.request("POST", "/run", '{"code": "while True: pass"}', headers)
    # Only what spins is in use for so long: the other one sleeps, parked boxes wait.
    wait_until(lambda: max(map(ticks_of, wait_tree(one).boxes)) > 50, "both run")
    old = wait_tree(one)
    os.kill(old.launcher, signal.SIGKILL)
    answer = answer_to(asked)
    check_error(answer, 503, "ExecutionLost")
    assert answer["begun"] is True and answer["retryable"] is False
    assert "retry-after" not in answer.headers, "it must not be repeated without a look"
    other = answer_to(alone)
    assert other.status == 503 and other["error_code"] == "Sandbox.Unavailable", other.raw
    assert other["begun"] is True and other["retryable"] is True
    assert int(other.headers["retry-after"]) >= 1
    wait_successor(one, old)
    record = api.get(f"/executions/{answer['execution_id']}").body
    assert record["status"] == "lost" and record["termination"]["cause"] == "server"
    assert record["fault"]["begun"] is True
