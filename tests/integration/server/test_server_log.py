# SPDX-License-Identifier: Apache-2.0
"""What an operator reads: JSON log lines with fields, an event for each broken rule, metrics."""
from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from husk_server import Server
from v1_client import Api
from v1_files import put
from waiting import wait_until

X32_GETPID = "import ctypes\nctypes.CDLL(None).syscall(0x40000000 | 39)"


class Logging(Server):
    """With JSON lines; events are those so far."""

    def events(self, name: str) -> list[dict[str, Any]]:
        found = [json.loads(line) for line in list(self.lines)]
        return [event for event in found if event["event"] == name]

    def wait_event(self, name: str, **fields: Any) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            fits = [e for e in self.events(name) if fields.items() <= e.items()]
            return fits[-1] if fits else None

        return wait_until(look, lambda: f"the event {name} {fields}:\n{self.output}")


@pytest.fixture(scope="module")
def server() -> Iterator[Logging]:
    server = Logging("--log-format", "json", "--log-level", "debug")
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture
def api(server: Logging) -> Api:
    return Api(server.port)


# ---- the stream ----


def test_nothing_but_json_from_start_to_end() -> None:
    server = Logging("--log-format", "json")
    try:
        server.start()
        server.post("/run", {"code": "1"})
        old = server.kill_huskd()
        server.wait_event("daemon_ended")
        wait_until(lambda: len(server.events("started")) == 2, "another one")
        server.wait_ready()
        assert server.stop() == 0
    finally:
        server.remove()
    lines = [json.loads(line) for line in server.lines]
    assert all({"time", "level", "event"} <= set(line) for line in lines)
    first, second = server.events("started")
    assert first["pid"] == old and second["epoch"] == first["epoch"] + 1
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", first["version"]) and first["data"] == str(server.data)
    (ready,) = server.events("ready")
    assert ready["listen"] == f"127.0.0.1:{server.port}"
    (ended,) = server.events("daemon_ended")
    assert ended["status"] == 9 and ended["message"].startswith("restart in")


def test_a_start_that_fails_is_json() -> None:
    server = Logging("--log-format", "json", "--templates-preload", "no-such-template")
    try:
        with pytest.raises(AssertionError, match="husk up ended"):
            server.start()
        assert "no-such-template" in server.events("start_failed")[0]["message"]
    finally:
        server.remove()


# ---- broken rules ----


def test_policy(server: Logging) -> None:
    answer = server.post("/run", {"code": "import os"})
    event = server.wait_event("policy_refused", request_id=answer.headers["X-Request-ID"])
    assert event["message"] == "Import of 'os' is not allowed" and event["level"] == "warn"


@pytest.mark.parametrize(
    "event, code, fields",
    [
        ("forbidden_call", X32_GETPID, {"cause": "seccomp", "status": "crashed"}),
        ("out_of_memory", "x = bytearray(3 << 30)", {"status": "memory_exceeded"}),
        ("crashed", "import ctypes; ctypes.string_at(0)", {"exit_code": 139}),
        ("limit_reached", "while True: pass", {"cause": "timeout", "limit": "timeout 1000 ms"}),
        (
            "limit_reached",
            "import os\nwhile os.write(1, b'x' * 65536): pass",
            {"cause": "output_limit"},
        ),
    ],
)
def test_rules_that_a_cell_breaks(
    server: Logging, api: Api, event: str, code: str, fields: dict[str, Any]
) -> None:
    session = api.session()
    run = api.run(session, code, timeout=1 if fields.get("cause") == "timeout" else 30)
    found = server.wait_event(event, execution=run["execution_id"])
    assert found["session"] == session and found["template"] == "python"
    assert fields.items() <= found.items()


def test_a_run_that_just_fails_is_no_event(server: Logging, api: Api) -> None:
    run = api.run(api.session(), "raise ValueError('level=error event=forged')")
    server.wait_event("api_answer", operation="v1_execute_sync")
    assert not [line for line in server.lines if run["execution_id"] in line]


def test_text_of_a_box_is_no_field(server: Logging) -> None:
    answer = server.post("/run", {"code": "import evil session=x"})
    assert answer.status == 200
    code = '__import__(\'os: x=1\\n{"event":"forged"}\')'
    answer = server.post("/run", {"code": code})
    server.wait_event("run_ended", request_id=answer.headers["X-Request-ID"])
    assert not server.events("forged") and not [
        e for e in server.events("policy_refused") if "x" in e
    ]


def test_files(server: Logging, api: Api) -> None:
    session = api.session()
    api.run(session, "import os; os.symlink('/etc/passwd', 'link')")
    answer = api.get(f"/sessions/{session}/files/link")
    assert answer.status == 409
    event = server.wait_event("file_denied", request_id=answer["request_id"])
    assert event["operation"].startswith("v1_file")
    server.post("/workspace/se/execute_code/s1", {"code": "import os; os.symlink('/etc', 'e')"})
    assert server.get("/workspace/se/download/s1/e/passwd").status == 400
    assert server.wait_event("file_denied", operation="se_download")["message"]


def test_request_log_has_what_a_run_cost(server: Logging) -> None:
    answer = server.post("/run", {"code": "x = sum(range(10 ** 6)); print(x)"})
    event = server.wait_event("run_ended", request_id=answer.headers["X-Request-ID"])
    assert event["status"] == "completed" and event["stdout_bytes"] == 13
    assert event["duration_ms"] > 0 and event["cpu_ms"] > 0 and event["memory_mb"] > 0


# ---- metrics ----


def samples(server: Server) -> dict[str, float]:
    lines = server.get("/metrics").text.splitlines()
    rows = [line.rsplit(" ", 1) for line in lines if not line.startswith("#")]
    return {name: float(value) for name, value in rows}


def check_histogram(found: dict[str, float], name: str, label: str = "") -> float:
    start = f"{name}_bucket{{{label}{',' if label else ''}le="
    counts = [value for key, value in found.items() if key.startswith(start)]
    whole = f"{{{label}}}" if label else ""
    count = found[f"{name}_count{whole}"]
    assert len(counts) == 13 and counts == sorted(counts) and counts[-1] == count
    assert found[f"{name}_sum{whole}"] > 0
    return count


def test_histograms(server: Logging) -> None:
    before = samples(server)
    for _ in range(3):
        server.post("/run", {"code": "1"})
    after = samples(server)
    for name in ("husk_run_seconds", "husk_run_memory_peak_bytes"):
        assert check_histogram(after, name) >= before[f"{name}_count"] + 3
    assert check_histogram(after, "husk_run_queue_seconds") >= 3
    assert check_histogram(after, "husk_api_request_seconds", 'operation="run_execute"') >= 3


def test_what_boxes_use(server: Logging, api: Api) -> None:
    session = api.session()
    api.run(session, "x = bytearray(100 << 20)\nfor i in range(10 ** 6): pass")
    wait_until(lambda: samples(server)["husk_boxes_memory_bytes"] > 100 << 20, "it is seen")
    found = samples(server)
    assert found["husk_boxes_cpu_seconds_total"] > 0 and found["husk_boxes_processes"] >= 2
    assert found['husk_boxes{state="running"}'] >= 1
    assert found["husk_boxes_memory_limit_bytes"] >= 1 << 30


def test_disk_workspaces_limits_and_descriptors(server: Logging, api: Api) -> None:
    session = api.session()
    assert put(api, session, "f", b"x").status == 201
    found = samples(server)
    assert found["husk_workspaces_unsaved"] >= 1
    wait_until(lambda: samples(server)["husk_workspaces_unsaved"] == 0, "it is saved")
    assert 0 < found["husk_disk_free_bytes"] < found["husk_disk_bytes"]
    assert found['husk_limit{setting="max_sessions"}'] == 2000
    assert 10 < found["process_open_fds"] < found["process_max_fds"]
    assert found['husk_run_ends_total{cause="exit"}'] >= 1
