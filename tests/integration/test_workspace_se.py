# SPDX-License-Identifier: Apache-2.0
"""The /workspace/se dialect against a real huskd: sessions, code, handlers, documents."""
from __future__ import annotations

import gzip
import os
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from file_samples import MIB, form
from husk_server import Server, server
from se_client import BASE, Se, check_422, check_detail, se, shared, sid
from v1_client import Answer
from waiting import wait_until

__all__ = ["se", "server", "shared", "sid"]
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


# ---- running code ----


def test_python_keeps_its_state(se: Se, shared: str) -> None:
    assert se.python(shared, "a = 1\nprint(a)") == {"stdout": "1\n", "stderr": "", "returncode": 0}
    assert se.python(shared, "a += 1\nprint(a)")["stdout"] == "2\n"


def test_output_variables(se: Se, shared: str) -> None:
    code = "n = 1.5; s = 'ä'; d = {'k': [1, None]}; obj = object(); big = 10**30"
    got = se.python(shared, code, output_params=["n", "s", "d", "obj", "missing"])
    values = got["output_variables"]
    assert values.pop("obj").startswith("<object object")
    assert values == {"n": 1.5, "s": "ä", "d": {"k": [1, None]}}
    odd = se.python(shared, "z = chr(0); f = 0.1", output_params=["n", "big", "z", "f"])
    assert odd["output_variables"] == {"n": 1.5, "big": 10**30, "z": "\0", "f": 0.1}
    whole = se.python(shared, "i = 2**53 + 1", output_params=["i", "big"])["output_variables"]
    assert repr(whole) == repr({"i": 2**53 + 1, "big": 10**30})
    floats = "a = float('nan'); b = float('-inf'); c = [1, float('inf')]"
    got = se.python(shared, floats, output_params=["a", "b", "c"])
    assert got["output_variables"] == {"a": "nan", "b": "-inf", "c": "[1, inf]"}
    assert "output_variables" not in se.python(shared, "x = 1")
    assert se.python(shared, "x = 1", output_params=[])["output_variables"] == {}
    assert se.python(shared, "raise ValueError", output_params=["n"])["returncode"] == 1


def test_python_that_fails(se: Se, shared: str) -> None:
    got = se.python(shared, "print('before')\n1/0")
    assert (got["returncode"], got["stdout"]) == (1, "before\n")
    assert got["stderr"].startswith("Traceback") and "ZeroDivisionError" in got["stderr"]
    assert "SyntaxError" in se.python(shared, "def")["stderr"]
    got = se.python(shared, "import sys; print('e', file=sys.stderr); sys.exit(3)")
    assert (got["returncode"], got["stderr"]) == (3, "e\n")


def test_output_of_any_bytes(se: Se, shared: str) -> None:
    got = se.python(shared, "import os; n = os.write(1, b'a\\0b\\xff\\n')")
    assert (got["stdout"], got["returncode"]) == ("a\0b\ufffd\n", 0)
    body = se.handler("def handler(e):\n    print('a\\0b')\n    return chr(0)").body
    assert (body["stdout"], body["result"]) == ("a\0b\n", "\0")


def test_what_is_left_out_is_said(se: Se, shared: str) -> None:
    got = se.python(shared, "import os; n = os.write(2, b'err'); print('x' * (2 << 20))")
    assert len(got["stdout"]) == MIB
    assert got["stderr"] == "err\n[stdout was longer and is cut]\n"
    got = se.ok(f"/execute/{shared}", {"command": "head -c 3000000 /dev/zero >&2"})
    assert got["stderr"].endswith("\0\n[stderr was longer and is cut]\n")
    got = se.python(shared, "small = 1; big = 'x' * (2 << 20)", output_params=["big", "small"])
    assert got["output_variables"] == {"small": 1}
    assert got["stderr"].startswith("[output_variables leaves out values")
    body = se.handler("def handler(e): print('x' * (2 << 20))").body
    assert len(body["stdout"]) == MIB and body["stderr"] == "[stdout was longer and is cut]\n"


def test_args_and_filename(se: Se, shared: str) -> None:
    code = "import sys; print(sys.argv[1:])"
    got = se.python(shared, code, args=["a", "b c", "ä"], filename="/scripts/run.py")
    assert got["stdout"] == "['a', 'b c', 'ä']\n"
    assert se.get(f"/download/{shared}/scripts/run.py").raw == code.encode()
    assert se.python(shared, code, args=None)["stdout"] == "[]\n"


def test_shell_code(se: Se, shared: str) -> None:
    code = 'echo "$1-$2" "$#"\nfalse || echo "it\'s" >&2\nexit 7'
    got = se.ok(
        f"/execute_code/{shared}",
        {"code": code, "script_type": "shell", "args": ["x y", "z"], "filename": "s.sh"},
    )
    assert got == {"stdout": "x y-z 2\n", "stderr": "it's\n", "returncode": 7}
    got = se.ok(
        f"/execute_code/{shared}", {"code": "x=1", "script_type": "shell", "output_params": ["x"]}
    )
    assert got["output_variables"] == {}


def test_commands(se: Se, shared: str) -> None:
    se.create(shared, "data/in.txt", "one\ntwo\n")
    got = se.ok(f"/execute/{shared}", {"command": "wc", "args": ["-l", "data/in.txt"]})
    assert got == {"stdout": "2 data/in.txt\n", "stderr": "", "returncode": 0}
    got = se.ok(f"/execute/{shared}", {"command": "echo $((6 * 7)); pwd >&2; exit 3"})
    assert got == {"stdout": "42\n", "stderr": "/workspace\n", "returncode": 3}
    assert se.ok(f"/execute/{shared}", {"command": "no-such-program"})["returncode"] == 127
    assert se.ok(f"/execute/{shared}", {"command": "kill -9 $$"})["returncode"] == 137


BAD_RUNS: list[tuple[str, Any, tuple[str, ...]]] = [
    ("/execute_code/x", {}, ("body", "code")),
    ("/execute_code/x", {"code": ""}, ("body", "code")),
    ("/execute_code/x", {"code": 1}, ("body", "code")),
    ("/execute_code/x", {"code": "1", "script_type": "perl"}, ("body", "script_type")),
    ("/execute_code/x", {"code": "1", "args": "a"}, ("body", "args")),
    ("/execute_code/x", {"code": "1", "filename": "../x"}, ("body", "filename")),
    ("/execute_code/x", {"code": "1", "output_params": "a"}, ("body", "output_params")),
    ("/execute/x", {}, ("body", "command")),
    ("/execute/x", {"command": ""}, ("body", "command")),
    ("/execute/x", {"command": "a", "args": {}}, ("body", "args")),
    ("/create/x", {"filename": "a"}, ("body", "content")),
    ("/create/x", {"content": "a"}, ("body", "filename")),
    ("/create/x", {"content": "a", "filename": "a", "mode": 512}, ("body", "mode")),
    ("/v2/execute_code", {}, ("body", "handler_code")),
    ("/v2/execute_code", {"handler_code": ""}, ("body", "handler_code")),
    ("/v2/execute_code", {"handler_code": "x", "event": []}, ("body", "event")),
    ("/v2/execute_code", {"handler_code": "x", "event": {"__timeout": "1"}}, ("body", "event")),
    ("/cleanup-all", {"force": "yes"}, ("body", "force")),
    ("/download_from_efast/x", {}, ("body", "file_params")),
]


@pytest.mark.parametrize("path, body, place", BAD_RUNS, ids=[f"{r[0]} {r[1]}" for r in BAD_RUNS])
def test_bad_bodies(se: Se, path: str, body: Any, place: tuple[str, ...]) -> None:
    check_422(se.post(path, body), *place)


def test_unknown_fields_are_ignored(se: Se, shared: str) -> None:
    assert se.python(shared, "print(1)", whatever=1)["stdout"] == "1\n"
    assert se.get("/healthy?x=1").status == 200


def test_limits_of_a_session(se: Se, sid: str) -> None:
    got = se.python(sid, "x = bytearray(1 << 30)")
    assert got["returncode"] != 0
    got = se.python(sid, "import os\nprint(open('/proc/net/dev').read().count(':'))")
    assert got["stdout"] in ("0\n", "1\n"), got  # no network but lo


FORK_ON = """
import os, time
def fork():
    if os.fork() == 0:
        time.sleep(60)
        os._exit(0)
"""


def test_processes_of_a_session(se: Se, sid: str) -> None:
    """100, of which husk needs a few itself."""
    code = "n = 0\ntry:\n    while True:\n        fork(); n += 1\nexcept BlockingIOError: print(n)"
    assert 90 < int(se.python(sid, FORK_ON + code)["stdout"]) < 100
    se.call("DELETE", f"/session/{sid}")


def test_session_that_is_full(se: Se, sid: str) -> None:
    """A command learns why it cannot run."""
    code = "while True:\n    try: fork()\n    except BlockingIOError: time.sleep(0.01)"
    body = {"code": FORK_ON + code}
    se.create(sid, "made", "")
    thread = threading.Thread(target=lambda: se.post(f"/execute_code/{sid}", body))
    thread.start()
    deadline = time.monotonic() + 30
    while (answer := se.post(f"/execute/{sid}", {"command": "true"})).status == 200:
        assert time.monotonic() < deadline
    check_detail(answer, 500, "ExecException", "the session has reached its process limit")
    se.call("DELETE", f"/session/{sid}")
    thread.join()


def test_command_whose_shell_cannot_start(se: Se, sid: str) -> None:
    se.create(sid, "x", "")
    got = se.ok(
        f"/execute_code/{sid}", {"code": "true", "script_type": "shell", "args": ["x" * 131072]}
    )
    assert got == {
        "stdout": "",
        "stderr": "bash: cannot start: Argument list too long\n",
        "returncode": 126,
    }


def test_process_limit_of_handlers() -> None:
    """It is theirs alone: sessions run whatever it is."""
    code = """
import threading
def handler(event):
    threading.Thread(target=print).start()
"""
    with Server.run("--se-max-processes", "1") as server:
        se = Se(server.port)
        assert se.handler("def handler(event): return 1")["result"] == 1
        assert "can't start new thread" in se.handler(code)["stderr"]
        assert se.ok("/execute/s", {"command": "ls | wc -l"})["stdout"] == "0\n"


def test_daemon_that_dies() -> None:
    """Variables and files are in the box, which goes on."""
    with Server.run() as server:
        se = Se(server.port)
        se.python("kept", "x = 41")
        se.create("kept", "f", "file")
        server.kill_huskd()
        server.wait_ready()
        assert se.python("kept", "print(x + 1)")["stdout"] == "42\n"
        assert se.get("/download/kept/f").raw == b"file"
        assert list(se.get("/workspaces")["workspaces"]) == ["kept"]


def test_time_limit() -> None:
    with Server.run("--se-timeout", "1s") as server:
        se = Se(server.port)
        with ThreadPoolExecutor() as pool:  # each takes a second
            code = pool.submit(se.python, "a", "print('so far', flush=True)\nwhile True: pass")
            shell = pool.submit(se.ok, "/execute/b", {"command": "echo now; sleep 60"})
            handler = pool.submit(se.handler, "def handler(event):\n    while True: pass")
        got = code.result()
        assert (got["returncode"], got["stdout"]) == (124, "so far\n")
        got = shell.result()
        assert (got["returncode"], got["stdout"]) == (124, "now\n")
        assert got["stderr"] == "ended by a limit: timeout 1000 ms\n"
        check_detail(handler.result(), 500, "ExecTimeout")


# ---- handlers ----


def test_handler(se: Se) -> None:
    code = "def handler(event, context):\n    print('hi')\n    return {'got': event, 'f': 0.1}"
    answer = se.handler(code, {"a": [1, "ä", None]}, context={"function_name": "me"})
    assert answer.status == 200
    body = answer.body
    assert (body["stdout"], body["stderr"]) == ("hi\n", "")
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


# ---- cells that need no Python around them ----


def run(se: Se, sid: str, code: str, **more: Any) -> Any:
    answer = se.post(f"/execute_code/{sid}", {"code": code, **more})
    assert answer.status == 200, answer.raw
    return answer.body


def test_plain_cells_and_others_share_one_interpreter(se: Se, sid: str) -> None:
    assert run(se, sid, "print('a')")["stdout"] == "a\n"
    assert run(se, sid, "x = 5")["returncode"] == 0
    assert run(se, sid, "print(x)", output_params=["x"])["output_variables"] == {"x": 5}
    assert run(se, sid, "print(x + 1)")["stdout"] == "6\n"


def test_a_plain_cell_that_fails(se: Se, sid: str) -> None:
    failed = run(se, sid, "print('once') or eval('1 +')")
    assert failed["stdout"] == "once\n" and failed["returncode"] == 1
    assert "SyntaxError" in failed["stderr"]
    failed = run(se, sid, "print(undefined)")
    assert failed["returncode"] == 1 and 'File "<cell 2>", line 1' in failed["stderr"]
    assert run(se, sid, "print(1 +")["returncode"] == 1
    assert run(se, sid, "print('on')")["stdout"] == "on\n"


def test_arguments_end_with_their_cell(se: Se, sid: str) -> None:
    assert (
        run(se, sid, "import sys; print(sys.argv[1:])", args=["a", "b"])["stdout"] == "['a', 'b']\n"
    )
    assert run(se, sid, "print(__import__('sys').argv[1:])")["stdout"] == "[]\n"


@pytest.mark.parametrize("code", ["print(os.fork() > 0)", "pid = os.fork()\nprint(pid > 0)"])
def test_a_process_forked_by_a_cell_ends_with_it(se: Se, sid: str, code: str) -> None:
    """It must not take the cells that come next."""
    run(se, sid, "import os")
    assert "True" in run(se, sid, code)["stdout"]
    pids = {run(se, sid, "print(os.getpid())")["stdout"] for _ in range(30)}
    assert len(pids) == 1
    assert run(se, sid, "print(os.waitpid(-1, 0)[0] > 0)")["stdout"] == "True\n"
