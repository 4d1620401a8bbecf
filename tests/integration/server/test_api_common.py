# SPDX-License-Identifier: Apache-2.0
"""What every dialect shares: health, version, metrics, names and origins, refusals, request ids."""
from __future__ import annotations

import http.client
import json
import os
import re
import signal
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from husk_server import Answer, Server, server  # noqa: F401
from places import ROOT
from waiting import wait_until

VERSION = (ROOT / "VERSION").read_text().strip()
REQUEST_ID = re.compile(r"req_[0-9a-f]{16}")


def v1_error(answer: Answer, status: int, code: str) -> dict[str, Any]:
    assert answer.status == status, answer.body
    error: dict[str, Any] = answer.json
    fields = ["description", "error_code", "error_detail", "request_id", "solution"]
    assert sorted(error) == fields
    assert error["error_code"] == code
    assert all(isinstance(text, str) and text for text in error.values())
    assert error["description"].endswith(".") and error["solution"].endswith(".")
    assert REQUEST_ID.fullmatch(error["request_id"])
    return error


# ---- health and version ----


def test_health(server: Server) -> None:
    for path in ("/api/v1/health", "/api/v1/health/live", "/api/v1/health/ready"):
        answer = server.get(path)
        assert answer.status == 200
        assert sorted(answer.json) == ["reason", "status", "uptime", "version"]
        assert answer.json["status"] == "healthy" and answer.json["reason"] is None
        assert answer.json["version"] == VERSION and answer.json["uptime"] >= 0


def test_uptime_grows(server: Server) -> None:
    def uptime() -> float:
        return float(server.get("/api/v1/health").json["uptime"])

    first = uptime()
    wait_until(lambda: uptime() > first, "time goes by")


def test_detailed_health_names_each_part(server: Server) -> None:
    answer = server.get("/api/v1/health/detailed")
    assert answer.status == 200 and answer.json["status"] == "healthy"
    parts = answer.json["components"]
    assert sorted(parts) == ["disk", "engine", "pool", "store"]
    assert all(part["status"] in ("healthy", "degraded") for part in parts.values())
    assert parts["store"]["status"] == "healthy" and parts["store"]["latency_ms"] > 0
    assert re.fullmatch(
        r"\d+ MiB free of \d+ MiB; \d+ MiB kept of \d+ MiB \(data_quota\)", parts["disk"]["detail"]
    )
    assert str(server.folder) not in answer.text


def test_version(server: Server) -> None:
    answer = server.get("/api/v1/version").json
    assert (answer["name"], answer["version"], answer["api"]) == ("husk", VERSION, "1")
    assert {"jansson", "libuv", "openssl"} <= set(answer["libraries"])


# ---- metrics ----

KINDS = ("counter", "gauge", "histogram")
SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z_]+="[^"\\\n]*",?)*)\})? (-?[0-9.e+-]+|NaN|[+-]Inf)')


def metrics(server: Server) -> dict[str, float]:
    """Every sample, after a look at the grammar of the text."""
    answer = server.get("/metrics")
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert answer.text.endswith("\n")
    samples: dict[str, float] = {}
    types: dict[str, str] = {}
    helps: set[str] = set()
    for line in answer.text.splitlines():
        if line.startswith("# HELP "):
            name, text = line.split(" ", 3)[2:]
            assert name not in helps and text
            helps.add(name)
        elif line.startswith("# TYPE "):
            name, kind = line.split(" ")[2:]
            assert name in helps and name not in types and kind in KINDS
            types[name] = kind
        else:
            match = SAMPLE.fullmatch(line)
            assert match is not None, line
            name = match[1]
            if name not in types:  # the parts of a histogram
                name = re.sub("_(bucket|sum|count)$", "", name)
                assert types[name] == "histogram" and float(match[3]) >= 0
            assert types[name] in ("gauge", "histogram") or (
                name.endswith("_total") and float(match[3]) >= 0
            )
            key = line.rsplit(" ", 1)[0]
            assert key not in samples
            samples[key] = float(match[3])
    return samples


def test_metrics(server: Server) -> None:
    before = metrics(server)
    assert before["husk_ready"] == 1
    assert before[f'husk_build_info{{version="{VERSION}"}}'] == 1
    assert server.post("/run", {"code": "print(1)"}).status == 200
    after = metrics(server)
    assert after["husk_runs_total"] == before["husk_runs_total"] + 1
    key = 'husk_api_answers_total{operation="run_execute",class="2xx"}'
    assert after[key] == before.get(key, 0) + 1
    assert after["husk_http_requests_total"] > before["husk_http_requests_total"]
    assert after["process_resident_memory_bytes"] > 1 << 20
    pools = [name for name in after if name.startswith("husk_pool_boxes{")]
    assert any('use="ephemeral"' in name and 'state="parked"' in name for name in pools)


def test_metrics_count_failures(server: Server) -> None:
    key = 'husk_api_answers_total{operation="none",class="4xx"}'
    before = metrics(server).get(key, 0)
    assert server.get("/nowhere").status == 404
    assert metrics(server)[key] == before + 1


# ---- which callers are served ----


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1.evil.example"])
def test_other_hosts_are_refused(server: Server, host: str) -> None:
    answer = server.get("/api/v1/health", {"Host": host.format(port=server.port)})
    v1_error(answer, 421, "Sandbox.Forbidden")
    assert "--allowed-hosts" in answer.json["error_detail"], "the operator learns what to set"


@pytest.mark.parametrize(
    "host", ["127.0.0.1:{port}", "localhost:{port}", "localhost", "[::1]:{port}"]
)
def test_own_names_are_served(server: Server, host: str) -> None:
    assert server.get("/health", {"Host": host.format(port=server.port)}).status == 200


@pytest.mark.parametrize("host", ["10.1.2.3:8000", "192.0.2.7", "[fd00::7]:{port}"])
def test_any_address_is_served(server: Server, host: str) -> None:
    """Probes call a server by the address of its pod or service, which it need not know."""
    host = host.format(port=server.port)
    assert server.get("/health", {"Host": host}).status == 200
    evil = {"Host": host, "Origin": "http://evil.example"}
    assert server.post("/run", {"code": "print(1)"}, evil).status == 403


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1.evil.example"]
)
def test_other_origins_are_refused(server: Server, origin: str) -> None:
    answer = server.post("/run", {"code": "print(1)"}, {"Origin": origin})
    assert (answer.status, list(answer.json)) == (403, ["error"])
    v1_error(server.get("/api/v1/health", {"Origin": origin}), 403, "Sandbox.Forbidden")


def test_own_origin_and_configured_ones_are_served(server: Server) -> None:
    own = {"Origin": f"http://127.0.0.1:{server.port}"}
    assert server.get("/api/v1/health", own).status == 200
    flags = ("--allowed-origins", "https://app.example", "--allowed-hosts", "husk.example")
    with Server.run(*flags) as other:
        assert other.get("/api/v1/health", {"Origin": "https://app.example"}).status == 200
        assert other.get("/api/v1/health", {"Host": "husk.example"}).status == 200
        assert other.get("/api/v1/health", {"Origin": "https://other.example"}).status == 403


def test_nothing_is_offered_to_foreign_pages(server: Server) -> None:
    own = {"Origin": f"http://127.0.0.1:{server.port}"}
    evil = {"Origin": "http://evil.example"}
    preflight = {**own, "Access-Control-Request-Method": "POST"}
    answers = [server.get("/health"), server.get("/health", own), server.get("/health", evil)]
    answers.append(server.request("OPTIONS", "/run"))
    answers.append(server.request("OPTIONS", "/run", headers=preflight))
    for answer in answers:
        assert not [name for name in answer.headers if name.lower().startswith("access-control")]


def test_the_unix_socket_serves_the_same(server: Server) -> None:
    assert stat.S_ISSOCK(server.socket.stat().st_mode)
    assert stat.S_IMODE(server.socket.stat().st_mode) == 0o660
    assert server.over_socket("GET", "/api/v1/health").json["status"] == "healthy"


# ---- refusals ----


def test_nothing_there(server: Server) -> None:
    for path in ("/nowhere", "/api/v1/nowhere", "/api/v1", "/api/v1/health/", "/api/v2/sessions"):
        v1_error(server.get(path), 404, "Sandbox.NotFound")
    detail = server.get("/workspace/se/nowhere")
    assert detail.status == 404
    fields = ["description", "error_code", "error_detail", "solution"]
    assert sorted(detail.json["detail"]) == fields


def test_other_methods(server: Server) -> None:
    answer = server.delete("/api/v1/health")
    v1_error(answer, 405, "Sandbox.MethodNotAllowed")
    assert answer.headers["Allow"] == "GET, HEAD"
    answer = server.get("/run")
    assert (answer.status, answer.headers["Allow"]) == (405, "POST")
    assert list(answer.json) == ["error"]
    assert server.request("OPTIONS", "/api/v1/sessions").headers["Allow"] == "GET, HEAD, POST"


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "text/json"])
def test_other_content_types(server: Server, kind: str) -> None:
    for path in ("/api/v1/sessions", "/api/v1/sessions/s1/terminate"):
        answer = server.post(path, b'{"template_id": "python"}', {"Content-Type": kind})
        v1_error(answer, 415, "Sandbox.InvalidParameter")


def test_compressed_bodies_are_refused(server: Server) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    v1_error(server.post("/api/v1/sessions", b"x", headers), 415, "Sandbox.InvalidParameter")


def test_a_body_that_is_no_json(server: Server) -> None:
    answer = server.post("/api/v1/sessions", b"{", {"Content-Type": "application/json"})
    error = v1_error(answer, 400, "Sandbox.InvalidParameter")
    assert error["error_detail"].count("the body is not JSON") == 1


def test_a_number_beyond_64_bits_is_refused_as_that(server: Server) -> None:
    body = b'{"handler_code": "x", "event": {"n": 18446744073709551616}}'
    answer = server.post("/api/v1/sessions/x/execute", body, {"Content-Type": "application/json"})
    detail = v1_error(answer, 400, "Sandbox.InvalidParameter")["error_detail"]
    assert "64 bits" in detail and "not JSON" not in detail


def test_invalid_fields_and_parameters_are_named(server: Server) -> None:
    answer = server.post(
        "/api/v1/sessions", {"template_id": "python", "nonsense": 1, "timeout": -5}
    )
    error = v1_error(answer, 422, "Sandbox.InvalidParameter")
    assert "nonsense" in error["error_detail"] and "timeout" in error["error_detail"]
    error = v1_error(
        server.get("/api/v1/sessions?limit=0&bogus=1"), 422, "Sandbox.InvalidParameter"
    )
    assert "limit" in error["error_detail"] and "bogus" in error["error_detail"]


def test_too_large_a_body_says_how_much_is_allowed(server: Server) -> None:
    with_length = server.connection()
    with_length.putrequest("POST", "/api/v1/sessions")
    with_length.putheader("Content-Type", "application/json")
    with_length.putheader("Content-Length", str(1 << 40))
    with_length.endheaders()
    answer = with_length.getresponse()
    assert answer.status == 413
    error = json.loads(answer.read())
    assert error["error_code"] == "Sandbox.TooLarge"
    assert re.search(r"at most \d+ bytes", error["error_detail"])
    with_length.close()


@pytest.mark.parametrize(
    "name", ["..", "%2e%2e", "a%2Fb", "a%00b", "a%20b", "%ff", "-x", "x" * 200]
)
def test_errors_tell_nothing_of_the_host(server: Server, name: str) -> None:
    paths = [f"/api/v1/sessions/{name}", f"/api/v1/templates/{name}", f"/api/v1/executions/{name}"]
    for path in paths:
        answer = server.get(path)
        assert 400 <= answer.status < 500, (path, answer.body)
        for secret in (str(server.folder), str(ROOT), "/proc", "No such file", "errno", ".c:"):
            assert secret not in answer.text


# ---- request ids ----


def test_every_answer_has_its_own_id(server: Server) -> None:
    seen = set()
    for path in ("/", "/health", "/api/v1/health", "/nowhere", "/metrics", "/workspace/se/healthy"):
        for _ in range(20):
            answer = server.get(path)
            assert REQUEST_ID.fullmatch(answer.headers["X-Request-ID"])
            assert re.fullmatch(r"\d+\.\d{6}", answer.headers["X-Process-Time"])
            seen.add(answer.headers["X-Request-ID"])
    assert len(seen) == 120


def test_errors_repeat_the_id(server: Server) -> None:
    answer = server.get("/api/v1/nowhere")
    assert answer.json["request_id"] == answer.headers["X-Request-ID"]


def refused_before_a_route(server: Server) -> list[Answer]:
    """By the parser, by the Host header, by the Origin header."""
    own = f"Host: 127.0.0.1:{server.port}"
    heads = [
        ["GET /api/v1/sessions/a%0Ab HTTP/1.1", own],
        ["GET /api/v1/sessions/%ff HTTP/1.1", own],
        ["HEAD /api/v1/sessions/%ff HTTP/1.1", own],
        ["GET /api/v1/health HTTP/1.1", "Host: evil.example"],
        ["GET /run HTTP/1.1", own, "Origin: http://evil.example"],
        ["GET /api/v1/health HTTP/1.1", own, own],
        ["GET /api/v1/health HTTP/9.9", own],
        ["no HTTP at all"],
    ]
    answers = []
    for head in heads:
        connection = server.connection()
        connection.connect()
        connection.sock.sendall("\r\n".join(head + ["", ""]).encode())
        got = http.client.HTTPResponse(connection.sock, method=head[0].split()[0])
        got.begin()
        answers.append(Answer(got.status, got.headers, got.read()))
        connection.close()
    return answers


def test_refusals_of_the_parser_have_an_id_too(server: Server) -> None:
    seen = set()
    for answer in refused_before_a_route(server):
        assert answer.status >= 400
        assert REQUEST_ID.fullmatch(answer.headers["X-Request-ID"])
        seen.add(answer.headers["X-Request-ID"])
        if b"request_id" in answer.body:
            assert answer.json["request_id"] == answer.headers["X-Request-ID"]
    assert len(seen) == 8


def test_process_time_is_the_time_it_took(server: Server) -> None:
    answer = server.post("/run", {"code": "while True: pass", "timeout": 1})
    assert 1.0 <= float(answer.headers["X-Process-Time"]) < 3.0


def test_head_is_get_without_the_body(server: Server) -> None:
    for path in ("/api/v1/health/live", "/openapi.json", "/docs", "/", "/nowhere"):
        get = server.get(path)
        head = server.request("HEAD", path)
        assert (head.status, head.body) == (get.status, b"")
        assert head.headers["Content-Type"] == get.headers["Content-Type"]


# ---- life ----


def test_it_starts_fast_and_stops_cleanly() -> None:
    begin = time.monotonic()
    with Server.run() as server:
        assert time.monotonic() - begin < 20
        pid = server.pid_of_huskd()
        status = Path(f"/proc/{pid}/status").read_text()
        if os.geteuid() == 0:
            uids = re.search(r"^Uid:\t(\d+)\t(\d+)\t(\d+)\t(\d+)$", status, re.M)
            assert uids is not None and "0" not in uids.groups()
        assert server.stop(signal.SIGINT) in (0, 130)
        assert not Path(f"/proc/{pid}").exists()
        assert not server.socket.exists()


def test_two_servers_side_by_side(server: Server) -> None:
    with Server.run() as other:
        assert other.post("/run", {"code": "print(1)"}).json["stdout"] == "1\n"
        assert server.post("/run", {"code": "print(2)"}).json["stdout"] == "2\n"


def test_a_killed_huskd_comes_back() -> None:
    with Server.run() as server:
        before = server.kill_huskd()
        server.wait_ready()
        assert server.pid_of_huskd() != before
        assert server.post("/run", {"code": "print(3)"}).json["stdout"] == "3\n"
