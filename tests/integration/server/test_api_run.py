# SPDX-License-Identifier: Apache-2.0
"""PyRunner's dialect over HTTP: requests, results, limits, many at once."""
from __future__ import annotations

import http.client
import json
import select
import shlex
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from audit import status_of
from husk_server import Server, server  # noqa: F401
from places import ROOT
from run_client import checked, invalid, refusal, run, success
from waiting import wait_until

# ---- the first call of a newcomer ----


def in_shell(answer: str) -> list[str]:
    """The arguments of the call that an answer shows."""
    return shlex.split(answer.partition("Try: ")[2])


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ((), 405),
        (("-X", "POST"), 422),
        (("-d", '{"code": "print(1)"}'), 415),
        (("-d", "print(1)"), 415),
        (("--json", "print(1)"), 422),
        (("--json", '"print(1)"'), 422),
        (("--json", "[]"), 422),
    ],
)
def test_a_call_that_cannot_be_read_shows_one_that_can(
    server: Server, arguments: tuple[str, ...], status: int
) -> None:
    def curl(*words: str) -> tuple[int, Any]:
        command = ["curl", "-s", "-w", "\n%{http_code}", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        body, _, code = done.stdout.rpartition("\n")
        return int(code), json.loads(body)

    code, body = curl(f"http://127.0.0.1:{server.port}/run", *arguments)
    assert code == status, body
    said = body["detail"][0]["msg"] if code == 422 else body["error"]
    shown = in_shell(said)
    assert shown[0] == "curl", said
    code, body = curl(*shown[1:])
    assert (code, body["stdout"]) == (200, "2\n"), body


def test_other_routes_show_no_call(server: Server) -> None:
    answer = server.request("POST", "/api/v1/sessions", b"x=1", {"Content-Type": "text/plain"})
    assert answer.status == 415 and "curl" not in answer.text


# ---- about the service ----


def test_root(server: Server) -> None:
    assert server.get("/").json == {
        "service": "PyRunner",
        "status": "healthy",
        "version": "1.0.0",
        "capabilities": {
            "max_timeout": 300,
            "max_memory_mb": 2048,
            "libraries": ["sympy", "numpy", "pandas", "matplotlib", "scipy", "sklearn"],
        },
        "husk": {"version": (ROOT / "VERSION").read_text().strip(), "docs": "/docs"},
    }


def test_health(server: Server) -> None:
    answer = server.get("/health")
    assert (answer.status, answer.json) == (200, {"status": "healthy"})


def test_query_parameters_are_ignored(server: Server) -> None:
    """As the original does: probes add what they like."""
    assert server.get("/?probe=1").json == server.get("/").json
    assert server.get("/health?probe=1&probe=2").json == {"status": "healthy"}
    assert checked(server.post("/run?x=1", {"code": "1"}))["stdout"] == "1\n"


# ---- requests ----


def test_defaults_are_thirty_seconds_and_512_mb(server: Server) -> None:
    """Seen from inside: a bit less than 512 MB can be had, more cannot."""
    assert success(server, "x = bytearray(350 * 1024 * 1024)\nprint(len(x))") == "367001600\n"
    assert run(server, "x = bytearray(600 * 1024 * 1024)")["status"] == "memory_exceeded"


@pytest.mark.parametrize("field,low,high", [("timeout", 1, 300), ("memory_limit", 64, 2048)])
def test_bounds(server: Server, field: str, low: int, high: int) -> None:
    for value in (low, high):
        assert success(server, "print(1)", **{field: value}) == "1\n"
    for value in (low - 1, high + 1, 0, -1, 2**63 - 1, -(2**63)):
        (detail,) = invalid(server, {"code": "1", field: value})
        assert detail["loc"] == ["body", field]
        assert field in detail["msg"]
        assert str(low if value < low else high) in detail["msg"]


@pytest.mark.parametrize("value", ["30", 30.5, None, True, [], {}, "x"])
@pytest.mark.parametrize("field", ["timeout", "memory_limit"])
def test_numbers_must_be_whole(server: Server, field: str, value: Any) -> None:
    (detail,) = invalid(server, {"code": "1", field: value})
    assert detail["loc"] == ["body", field]


@pytest.mark.parametrize("code", ["", " ", "\n\t \n"])
def test_blank_code(server: Server, code: str) -> None:
    details = invalid(server, {"code": code})
    assert details[0]["loc"] == ["body", "code"]
    assert details[0]["msg"] == "Code cannot be empty"


def test_code_must_be_a_string_and_be_there(server: Server) -> None:
    for body in ({}, {"timeout": 5}):
        (detail,) = invalid(server, body)
        assert detail["loc"] == ["body", "code"] and detail["type"] == "missing"
    for wrong in (None, 5, ["print(1)"], {"a": 1}, True):
        (detail,) = invalid(server, {"code": wrong})
        assert detail["loc"] == ["body", "code"]


def test_a_million_characters_and_no_more(server: Server) -> None:
    line = "x = 1\n"
    code = "print('ran')\n" + line * ((1_000_000 - 13) // len(line))
    code += "#" * (1_000_000 - len(code))
    assert len(code) == 1_000_000
    assert success(server, code) == "ran\n"
    (detail,) = invalid(server, {"code": code + "#"})
    assert detail["msg"] == "Code too large"
    # Characters count, not bytes: these take four each.
    code = "print('ran') #" + "\N{SLIGHTLY SMILING FACE}" * (1_000_000 - 14)
    assert len(code) == 1_000_000 and success(server, code) == "ran\n"


def test_every_fault_is_named(server: Server) -> None:
    details = invalid(server, {"code": "", "timeout": 0, "memory_limit": 1, "auto_print": "yes"})
    assert {d["loc"][1] for d in details} == {"code", "timeout", "memory_limit", "auto_print"}


def test_unknown_fields_are_refused(server: Server) -> None:
    (detail,) = invalid(server, {"code": "1", "network": True})
    assert detail["loc"] == ["body", "network"] and detail["type"] == "extra_forbidden"


@pytest.mark.parametrize(
    "text",
    [
        b"{",
        b"",
        b"[]",
        b'"code"',
        b"null",
        b'{"code": "1",}',
        b'{"code": "1"} x',
        b'{"code": "1", "code": "2"}',
        b'{"code": "\xff"}',
        b'{"code": "\\ud800"}',
        b'\xef\xbb\xbf{"code": "1"}',
        b'{"code": NaN}',
        b"[" * 100_000,
        b'{"code": "a\\u0000b"}',
    ],
    ids=lambda text: repr(text[:20]),
)
def test_bodies_that_are_no_proper_object(server: Server, text: bytes) -> None:
    assert invalid(server, text, {"Content-Type": "application/json"})


@pytest.mark.parametrize(
    "kind",
    [
        None,
        "text/plain",
        "text/plain;application/json",
        "application/x-www-form-urlencoded",
        "json",
    ],
)
def test_what_a_web_page_could_send_unasked_is_refused(server: Server, kind: str | None) -> None:
    connection = server.connection()
    body = json.dumps({"code": "print(1)"}).encode()
    connection.putrequest("POST", "/run")
    if kind is not None:
        connection.putheader("Content-Type", kind)
    connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body)
    answer = connection.getresponse()
    assert answer.status == 415
    assert list(json.loads(answer.read())) == ["error"]
    connection.close()


def test_json_with_a_charset_is_json(server: Server) -> None:
    kind = {"Content-Type": "application/json; charset=utf-8"}
    assert server.post("/run", b'{"code": "print(1)"}', kind).status == 200


def test_too_large_a_body(server: Server) -> None:
    answer = server.post("/run", b" " * (17 << 20), {"Content-Type": "application/json"})
    assert answer.status == 413
    assert list(answer.json) == ["error"]


def objects(n: int) -> bytes:
    return b'{"code": [' + b"{}," * (n - 1) + b"{}]}"


def test_too_many_values(server: Server) -> None:
    answer = server.post("/run", objects(5_000_000), {"Content-Type": "application/json"})
    assert answer.status == 413
    assert answer.json == {"error": "the body has more than 200000 values"}


def test_memory_of_large_bodies_is_given_back() -> None:
    """Whichever thread parses them; each takes more than 20 MB for as long as it is looked at."""
    with Server.run() as fresh:
        huskd = fresh.pid_of_huskd()
        before = status_of(huskd, "VmRSS")
        for _ in range(8):
            answer = fresh.post("/run", objects(99_000), {"Content-Type": "application/json"})
            assert answer.status == 422
        wait_until(lambda: status_of(huskd, "VmRSS") < before + 8192, "huskd is small again")


# ---- results ----


def test_success(server: Server) -> None:
    result = run(server, "print(1+1)")
    assert result["status"] == "success" and result["stdout"] == "2\n"
    assert result["stderr"] == "" and result["error"] is None
    assert 0 < result["execution_time"] < 5


def test_an_exception_keeps_the_output(server: Server) -> None:
    result = run(server, "print('before')\n1/0")
    assert result["status"] == "error" and result["stdout"] == "before\n"
    assert "ZeroDivisionError: division by zero" in result["stderr"]
    assert result["error"] == result["stderr"]


def test_timeout_keeps_the_output(server: Server) -> None:
    begin = time.monotonic()
    result = run(server, "print('before')\nwhile True: pass", timeout=1)
    assert time.monotonic() - begin < 10
    assert result["status"] == "timeout" and result["error"] is None
    assert result["stdout"] == "before\n"
    assert "1 second" in result["stderr"]
    assert 1.0 <= result["execution_time"] <= 3.0


def test_too_much_memory(server: Server) -> None:
    """Whether Python notices (one large piece) or the kernel does (many small ones)."""
    for code in ("x = bytearray(500 << 20)", "x = []\nwhile True: x.append(bytearray(100000))"):
        result = run(server, "print('before')\n" + code, memory_limit=64, timeout=30)
        assert result["status"] == "memory_exceeded", result
        assert "Memory limit exceeded" in result["stderr"]
        assert result["error"] is None and result["stdout"] == "before\n"


def test_limits_hold_for_one_request_only(server: Server) -> None:
    code = "x = bytearray(200 << 20)\nprint(len(x) >> 20)"
    assert run(server, code, memory_limit=64)["status"] == "memory_exceeded"
    assert success(server, code, memory_limit=512) == "200\n"
    assert run(server, "while True: pass", timeout=1)["status"] == "timeout"
    assert success(server, "print(2)", timeout=30) == "2\n"


def test_nothing_is_left_for_the_next_request(server: Server) -> None:
    assert success(server, "x = 42\nprint(x)") == "42\n"
    result = run(server, "print(x)")
    assert result["status"] == "error" and "NameError" in result["stderr"]


def test_memory_used_is_real(server: Server) -> None:
    small = run(server, "pass")["memory_used"]
    large = run(server, "x = bytearray(100 << 20)")["memory_used"]
    assert 100 < large - small + 5 < 120


def test_much_output(server: Server) -> None:
    out = success(server, "for i in range(10000): print('line', i)")
    assert out.count("\n") == 10000 and out.endswith("line 9999\n")


def test_more_output_than_is_kept_is_said_so(server: Server) -> None:
    result = run(server, "print('x' * (3 << 20))")
    assert result["status"] == "success"
    assert result["stdout"] == "x" * (1 << 20)
    assert result["stderr"] == "[stdout was longer and is cut]"


def test_150_kb_of_code(server: Server) -> None:
    assert success(server, "x = 1\n" * 25_000 + "print(x)") == "1\n"


def test_unicode(server: Server) -> None:
    text = "héllo 世界 🎉 Ω"
    assert success(server, f"print({text!r})") == text + "\n"
    assert success(server, 'print("\\u0000|\\x7f|\\ud83d".encode("utf-8", "replace"))').startswith(
        "b"
    )


def test_bytes_that_are_no_text_are_replaced(server: Server) -> None:
    """surrogateescape brings the byte 0xff to stdout."""
    assert success(server, r'print("a\udcffb")') == "a\ufffdb\n"


def test_stdin_is_empty_and_exit_is_not_needed(server: Server) -> None:
    result = run(server, "raise SystemExit(3)")
    assert result["status"] == "error" and result["error"] == "exit code 3"
    assert success(server, "raise SystemExit(0)") == ""


# ---- many at once ----


def test_concurrent_mixed_requests(server: Server) -> None:
    def job(i: int) -> None:
        kind = i % 4
        if kind == 0:
            assert success(server, f"print({i} * 2)") == f"{i * 2}\n"
        elif kind == 1:
            assert "ZeroDivisionError" in run(server, "1/0")["stderr"]
        elif kind == 2:
            assert refusal(server, "import os")
        else:
            assert run(server, "while True: pass", timeout=1)["status"] == "timeout"

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(job, range(48)))


def test_other_requests_do_not_wait_for_a_slow_one(server: Server) -> None:
    before = _running(server)
    slow = _start_slow(server)
    wait_until(lambda: _running(server) > before, "it runs")
    assert server.get("/health").status == 200
    assert success(server, "print(1)") == "1\n"
    assert select.select([slow.sock], [], [], 0)[0] == [], "it is not answered yet"
    slow.close()
    wait_until(lambda: _running(server) <= before, "it has ended")


def test_a_connection_serves_many_runs(server: Server) -> None:
    connection = server.connection()
    for i in range(20):
        answer = server.request("POST", "/run", {"code": f"print({i})"}, connection=connection)
        assert checked(answer)["stdout"] == f"{i}\n"
    connection.close()


def _running(server: Server) -> float:
    text = server.get("/metrics").text
    (line,) = [x for x in text.splitlines() if x.startswith("husk_fibers ")]
    return float(line.split()[1])


def _start_slow(server: Server) -> http.client.HTTPConnection:
    """A run that goes on until its connection is closed."""
    connection = server.connection()
    body = json.dumps({"code": "while True: pass", "timeout": 300}).encode()
    connection.request("POST", "/run", body, {"Content-Type": "application/json"})
    return connection


def test_a_run_ends_when_its_client_has_gone(server: Server) -> None:
    before = _running(server)
    connection = _start_slow(server)
    wait_until(lambda: _running(server) > before, "it runs")
    connection.close()
    wait_until(lambda: _running(server) <= before, "the run without a client has ended")


def test_a_run_over_the_unix_socket(server: Server) -> None:
    assert checked(server.over_socket("POST", "/run", {"code": "print(7)"}))["stdout"] == "7\n"


def test_a_head_request_has_no_body(server: Server) -> None:
    connection: http.client.HTTPConnection = server.connection()
    answer = server.request("HEAD", "/health", connection=connection)
    assert answer.status == 200 and answer.body == b""
    assert int(answer.headers["Content-Length"]) > 0
    assert server.request("GET", "/health", connection=connection).status == 200
    connection.close()
