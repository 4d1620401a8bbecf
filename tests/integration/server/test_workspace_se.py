# SPDX-License-Identifier: Apache-2.0
"""The /workspace/se dialect against a real huskd: sessions, handlers, documents."""

from __future__ import annotations

import gzip
import os
import signal
import threading
import uuid
from typing import Any

import pytest
from file_samples import MIB, form
from husk_server import Server, server
from se_client import BASE, Se, check_422, check_detail, se, sid
from v1_client import Answer
from waiting import wait_until

__all__ = ["se", "server", "sid"]
METRICS = {"duration_ms", "memory_peak_mb", "cpu_time_ms", "timeout_seconds"}


# ---- sessions ----


def test_healthy(se: Se) -> None:
    assert se.get("/healthy").body == {"status": "success"}


def test_life_of_a_session(se: Se, sid: str) -> None:
    assert se.get(f"/status/{sid}").body == {
        "id": sid,
        "exists": False,
        "created_at": None,
        "mount_point": None,
        "is_mounted": False,
        "files": [],
    }
    assert se.post(f"/session/{sid}", {"size": "50M"}).body == {"session_id": sid}
    check_detail(se.post(f"/session/{sid}", {"size": "50M"}), 409, "InvalidParameter", sid)
    se.create(sid, "a.txt", "hello")
    state = se.get(f"/status/{sid}").body
    assert state["exists"] and state["is_mounted"] and state["mount_point"] == "/workspace"
    (file,) = state["files"]
    assert (file["filename"], file["size"], file["type"]) == ("a.txt", 5, "file")
    assert file["modified_at"].endswith("Z")
    assert se.get("/workspaces")["workspaces"][sid] == {
        "mount_point": "/workspace",
        "created_at": state["created_at"],
    }
    for _ in range(2):  # also a success when there is none
        assert se.call("DELETE", f"/session/{sid}").body == {"status": "success"}
    assert se.get(f"/status/{sid}")["exists"] is False
    assert se.get(f"/files/{sid}/").body == {"files": []}  # a new one, without the old files


def test_session_without_a_body(se: Se, sid: str) -> None:
    assert se.post(f"/session/{sid}").body == {"session_id": sid}
    se.call("DELETE", f"/session/{sid}")


@pytest.mark.parametrize("size", ["0", "abc", "-1M", "", None, 1.5, "9999999999999G", 5])
def test_bad_sizes(se: Se, sid: str, size: Any) -> None:
    check_422(se.post(f"/session/{sid}", {"size": size}), "body", "size")
    assert se.get(f"/status/{sid}")["exists"] is False


@pytest.mark.parametrize("size", ["1024G", os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")])
def test_size_that_no_box_can_have(se: Se, sid: str, size: Any) -> None:
    """The workspace is kept in memory: with such a one the box would have no limit at all."""
    answer = se.post(f"/session/{sid}", {"size": size})
    check_422(answer, "body", "size")
    assert answer["detail"][0]["msg"].startswith("size is kept in memory")
    assert se.get(f"/status/{sid}")["exists"] is False


def test_size_is_the_limit(se: Se, sid: str) -> None:
    se.post(f"/session/{sid}", {"size": "2M"})
    answer = se.post(f"/create/{sid}", {"filename": "big", "content": "x" * (4 * MIB)})
    check_detail(answer, 507, "InternalError", "disk")
    body, kind = form([("file", "big", b"x" * (4 * MIB))])
    answer = se.post(f"/upload/{sid}", raw=body, headers={"Content-Type": kind})
    check_detail(answer, 507, "InternalError", "disk")
    assert se.get(f"/files/{sid}/").body == {"files": []}
    assert se.create(sid, "small", "x")["size"] == 1


def test_default_size_can_be_used_up(se: Se, sid: str) -> None:
    """100M of files beside the memory that programs may use."""
    code = "open('f', 'wb').write(bytes(90 << 20)); x = bytearray(60 << 20); print(len(x))"
    got = se.python(sid, code)
    assert (got["returncode"], got["stdout"]) == (0, f"{60 << 20}\n"), got


@pytest.mark.parametrize("bad", ["a b", "%2e%2e", "-x", "x" * 65, "%00", "a%2fb", "%ff"])
def test_bad_ids(se: Se, bad: str) -> None:
    for path in (f"/status/{bad}", f"/files/{bad}/", f"/download/{bad}/x"):
        answer = se.get(path.replace(" ", "%20"), is_checked=False)
        assert answer.status in (400, 404, 422), answer.raw
    assert all(name != bad for name in se.get("/workspaces")["workspaces"])


def test_sessions_of_the_other_api_are_out_of_reach(se: Se, server: Server) -> None:
    made = server.post("/api/v1/sessions", {"mode": "persistent"}).json
    other = made["id"]
    check_detail(se.post(f"/execute/{other}", {"command": "id"}), 409, "InvalidParameter", other)
    check_detail(se.call("DELETE", f"/session/{other}"), 409, "InvalidParameter", other)
    check_detail(se.post(f"/session/{other}"), 409, "InvalidParameter", other)
    assert se.get(f"/status/{other}")["exists"] is False
    assert other not in se.get("/workspaces")["workspaces"]
    se.post("/cleanup-all", {"force": True})
    assert server.get(f"/api/v1/sessions/{other}").json["status"] == "running"
    server.delete(f"/api/v1/sessions/{other}?purge=true")


def test_session_that_has_ended_is_replaced(se: Se, server: Server, sid: str) -> None:
    se.create(sid, "old", "x")
    assert server.delete(f"/api/v1/sessions/{sid}").status == 200
    assert se.get(f"/status/{sid}")["exists"] is False
    assert sid not in se.get("/workspaces")["workspaces"]
    assert se.get(f"/files/{sid}/").body == {"files": []}
    se.create(sid, "new", "x")
    assert server.delete(f"/api/v1/sessions/{sid}").status == 200
    assert se.post(f"/session/{sid}", {"size": "1M"}).status == 200


def test_first_uses_at_the_same_time_make_one_session(se: Se, sid: str) -> None:
    results: list[Any] = []

    def use(i: int) -> None:
        results.append(se.create(sid, f"f{i}", str(i)))

    threads = [threading.Thread(target=use, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8
    files = se.get(f"/files/{sid}/")["files"]
    assert [f["filename"] for f in files] == [f"f{i}" for i in range(8)]


def test_cleanup_skips_what_runs(se: Se) -> None:
    se.post("/cleanup-all", {"force": True})
    busy, idle = f"busy-{uuid.uuid4().hex[:8]}", f"idle-{uuid.uuid4().hex[:8]}"
    se.create(idle, "a", "x")
    se.create(busy, "a", "x")
    answers: list[Answer] = []
    run = {"command": "touch started; sleep 60"}
    thread = threading.Thread(target=lambda: answers.append(se.post(f"/execute/{busy}", run)))
    thread.start()
    shown = f"/files/{busy}/"
    wait_until(lambda: "started" in [f["filename"] for f in se.get(shown)["files"]], "it runs")
    assert se.post("/cleanup-all").body == {
        "total": 2,
        "success": 1,
        "failed": [],
        "skipped": [busy],
    }
    assert list(se.get("/workspaces")["workspaces"]) == [busy]
    assert se.ok("/cleanup-all", {"force": True})["success"] == 1
    thread.join(30)
    check_detail(answers[0], 500, "ExecException")
    assert se.get("/workspaces").body == {"workspaces": {}}


# ---- handlers ----


def test_handler(se: Se) -> None:
    code = "def handler(event, context):\n    print('hi')\n    return {'got': event, 'f': 0.1}"
    answer = se.handler(code, {"a": [1, "ä", None]}, context={"function_name": "me"})
    assert answer.status == 200
    body = answer.body
    assert (body["exit_code"], body["stdout"], body["stderr"]) == (0, "hi\n", "")
    assert body["result"] == {"got": {"a": [1, "ä", None]}, "f": 0.1}
    assert set(body["metrics"]) == METRICS and body["metrics"]["timeout_seconds"] == 300
    assert body["metrics"]["duration_ms"] > 0 and body["metrics"]["memory_peak_mb"] > 0
    assert b"0.1}" in answer.raw  # as Python wrote it


def test_handler_of_one_argument_and_without_event(se: Se) -> None:
    assert se.handler("def handler(e): return e").body["result"] == {}
    assert se.handler("def handler(e): return 10**30").body["result"] == 10**30
    assert se.handler("async def handler(e): return [e]").body["result"] == [{}]


def test_handler_that_fails(se: Se) -> None:
    body = se.handler("def handler(e):\n    print('x')\n    return e['no']", {}).body
    assert body["result"] is None and body["stdout"] == "x\n" and "KeyError: 'no'" in body["stderr"]
    assert "SyntaxError" in se.handler("def handler(").body["stderr"]
    assert "handler" in se.handler("x = 1").body["stderr"]
    assert "exit code 3" in se.handler("import sys\ndef handler(e): sys.exit(3)").body["stderr"]
    assert "JSON" in se.handler("def handler(e): return object()").body["stderr"]
    body = se.handler("def handler(e): return [[]] * 200_001").body
    assert body["result"] is None and "more than 200000 values" in body["stderr"]


@pytest.mark.parametrize(
    "code, number",
    [
        ("def handler(", 1),
        ("x = 1", 1),
        ("def handler(e): return e['no']", 2),
        ("def handler(e): return object()", 2),
        ("import sys\ndef handler(e): sys.exit(7)", 7),
    ],
)
def test_exit_codes_of_handlers(se: Se, code: str, number: int) -> None:
    assert se.handler(code).body["exit_code"] == number


def test_the_context_of_a_handler_is_lambdas(se: Se) -> None:
    code = (
        "async def handler(event, context):\n"
        "    return [context.identity.cognito_identity_id, context.client_context.custom,\n"
        "            context.log_group_name, context.get_remaining_time_in_millis() > 0]\n"
    )
    context = {"identity": {"cognito_identity_id": "who"}, "client_context": {"custom": {"k": 1}}}
    answer = se.handler(code, {}, context=context)
    assert answer.body["result"] == ["who", {"k": 1}, "/lambda-sandbox/logs", True]


@pytest.mark.parametrize(
    "value, seconds", [(5, 5), (0, 300), (-1, 300), (0.5, 0.5), (99999, 3600), (3600, 3600)]
)
def test_timeout_in_the_event(se: Se, value: float, seconds: float) -> None:
    body = se.handler("def handler(e): return 1", {"__timeout": value}).body
    assert body["metrics"]["timeout_seconds"] == seconds


def test_handler_over_its_time_and_memory(se: Se) -> None:
    """What was written until then is kept."""
    say = "import os, sys\ndef handler(e):\n    print('out', flush=True); os.write(2, b'err\\n')\n"
    timeout = se.handler(say + "    while True: pass", {"__timeout": 0.5})
    check_detail(timeout, 500, "ExecTimeout", "timeout 500 ms")
    memory = se.handler(say + "    x = []\n    while True: x.append(bytearray(1 << 20))")
    check_detail(memory, 500, "ExecException", "memory")
    assert (
        "memory" in memory["detail"]["description"] and "se_memory" in memory["detail"]["solution"]
    )
    crash = se.handler(say + "    os.abort()")
    check_detail(crash, 500, "ExecException")
    for answer in (timeout, memory, crash):
        detail = answer["detail"]
        assert detail["stdout"] == "out\n" and detail["stderr"].startswith("err\n")
        assert "instead of returning" not in detail["stderr"]
        assert set(detail["metrics"]) == METRICS
    assert timeout["detail"]["metrics"]["timeout_seconds"] == 0.5
    codes = [answer["detail"]["exit_code"] for answer in (timeout, memory, crash)]
    assert codes == [124, 137, 128 + signal.SIGABRT]


def test_handlers_share_nothing(se: Se) -> None:
    code = "import json\ndef handler(e):\n    json.x = getattr(json, 'x', 0) + 1\n    return json.x"
    assert [se.handler(code).body["result"] for _ in range(5)] == [1] * 5


# ---- documents, and what is not there ----


def test_documents(se: Se) -> None:
    answer = se.get("/api.json")
    assert answer.status == 200 and answer.body["openapi"].startswith("3.1")
    assert all(path.startswith(BASE) for path in answer.body["paths"])
    page = se.get("/docs")
    assert page.headers["content-type"].startswith("text/html") and b"/workspace/se" in page.raw
    assert "default-src 'none'" in page.headers["content-security-policy"]
    for path, etag in (("/api.json", answer.headers["etag"]), ("/docs", page.headers["etag"])):
        again = se.get(path, headers={"If-None-Match": etag})
        assert (again.status, again.raw) == (304, b"")
        assert again.headers["cache-control"] == "no-cache"
        packed = se.get(path, headers={"Accept-Encoding": "gzip"}, is_checked=False)
        assert packed.headers["content-encoding"] == "gzip"
        assert gzip.decompress(packed.raw) == se.get(path).raw


def test_documents_can_be_switched_off() -> None:
    with Server.run("--docs", "false") as server:
        se = Se(server.port)
        for path in ("/api.json", "/docs"):
            check_detail(se.get(path, is_checked=False), 404, "InvalidParameter", "docs = false")


def test_vendor_store(se: Se, sid: str) -> None:
    answer = se.post(f"/download_from_efast/{sid}", {"file_params": [{"docid": "gns://1"}]})
    check_detail(answer, 501, "InternalError", "network")
    assert se.get(f"/status/{sid}")["exists"] is False


@pytest.mark.parametrize(
    "body, word",
    [
        ({"file_params": []}, "file_params"),
        ({"file_params": [{"docid": "a"}, {}]}, "docid"),
        ({"file_params": [{"docid": ""}]}, "docid"),
        ({"file_params": [{"docid": "a", "savename": "../x"}]}, "savename"),
        ({"file_params": [{"docid": "a"}], "save_path": "a/.."}, "save_path"),
    ],
)
def test_bad_requests_to_the_vendor_store(se: Se, body: Any, word: str) -> None:
    check_detail(se.post("/download_from_efast/x", body), 400, "InvalidParameter", word)


def test_unknown_routes(se: Se) -> None:
    answer = se.get("/nothing/here")
    check_detail(answer, 404, "InvalidParameter")
    assert se.call("DELETE", "/healthy", is_checked=False).status == 405
