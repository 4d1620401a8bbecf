# SPDX-License-Identifier: Apache-2.0
"""The /workspace/se dialect against a real huskd: every route, success and failure."""
from __future__ import annotations

import base64
import gzip
import http.client
import json
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest
from file_samples import MIB, TRAVERSALS, check_no_leak, form, pattern, plant_links, swap_loop
from husk_server import Server, server
from v1_client import CONTRACT, Answer

__all__ = ["server"]
BASE = "/workspace/se"
METRICS = {"duration_ms", "memory_peak_mb", "cpu_time_ms", "timeout_seconds"}


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
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection._validate_path = lambda url: None  # type: ignore[attr-defined]
        try:
            connection.request(method, BASE + path, data, {**sent, **(headers or {})})
            got = connection.getresponse()
            answer = Answer(got.status, {k.lower(): v for k, v in got.getheaders()}, got.read())
        finally:
            connection.close()
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
    yield client
    client.post("/cleanup-all", {"force": True})


@pytest.fixture
def sid() -> str:
    """An id that nobody has used."""
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
    deadline = time.monotonic() + 30
    while "started" not in [f["filename"] for f in se.get(f"/files/{busy}/")["files"]]:
        assert time.monotonic() < deadline
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
    code = "n = 1.5\ns = 'ä'\nd = {'k': [1, None]}\nobj = object()\nbig = 10**30"
    got = se.python(shared, code, output_params=["n", "s", "d", "obj", "missing"])
    values = got["output_variables"]
    assert values.pop("obj").startswith("<object object")
    assert values == {"n": 1.5, "s": "ä", "d": {"k": [1, None]}}
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
    ("/download_from_efast/x", {"file_params": []}, ("body", "file_params")),
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


def test_time_limit() -> None:
    with Server.run("--se-timeout", "1s") as server:
        se = Se(server.port)
        got = se.python("slow", "print('so far', flush=True)\nwhile True: pass")
        assert (got["returncode"], got["stdout"]) == (124, "so far\n")
        got = se.ok("/execute/slow", {"command": "echo now; sleep 60"})
        assert (got["returncode"], got["stdout"]) == (124, "now\n")
        answer = se.handler("def handler(event):\n    while True: pass")
        check_detail(answer, 500, "ExecTimeout")


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


@pytest.mark.parametrize(
    "value, seconds", [(5, 5), (0, 300), (-1, 300), (0.5, 0.5), (99999, 3600), (3600, 3600)]
)
def test_timeout_in_the_event(se: Se, value: float, seconds: float) -> None:
    body = se.handler("def handler(e): return 1", {"__timeout": value}).body
    assert body["metrics"]["timeout_seconds"] == seconds


def test_handler_over_its_time_and_memory(se: Se) -> None:
    code = "def handler(e):\n    while True: pass"
    check_detail(se.handler(code, {"__timeout": 0.5}), 500, "ExecTimeout")
    grab = "def handler(e):\n    x = []\n    while True: x.append(bytearray(1 << 20))"
    answer = se.handler(grab)
    if answer.status == 200:
        assert "MemoryError" in answer["stderr"]
    else:
        check_detail(answer, 500, "ExecException")
    check_detail(se.handler("import os\ndef handler(e): os.abort()"), 500, "ExecException")


def test_handlers_share_nothing(se: Se) -> None:
    code = "import json\ndef handler(e):\n    json.x = getattr(json, 'x', 0) + 1\n    return json.x"
    assert [se.handler(code).body["result"] for _ in range(5)] == [1] * 5


# ---- files ----


def test_upload_and_download(se: Se, shared: str) -> None:
    data = pattern(2 * MIB)
    body, kind = form([("note", None, b"ignored"), ("file", "näme.bin", data)])
    sent = {"Content-Type": kind}
    got = se.post(f"/upload/{shared}?filename=sub/dir/x.bin", raw=body, headers=sent)
    assert got.body == {"filename": "sub/dir/x.bin", "size": len(data)}
    assert se.post(f"/upload/{shared}", raw=body, headers=sent)["filename"] == "näme.bin"
    answer = se.get(f"/download/{shared}/sub/dir/x.bin")
    assert answer.raw == data
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith("attachment;")
    assert se.get(f"/download/{shared}//sub/dir/x.bin").raw == data


def test_bad_uploads(se: Se, sid: str) -> None:
    def upload(parts: list[tuple[str, str | None, bytes]], query: str = "") -> Answer:
        body, kind = form(parts)
        return se.post(f"/upload/{sid}{query}", raw=body, headers={"Content-Type": kind})

    check_detail(upload([("file", None, b"x")]), 400, "InvalidParameter")
    check_detail(upload([("file", "../../x", b"x")]), 400, "InvalidParameter")
    check_detail(upload([("file", "/", b"x")]), 400, "InvalidParameter")
    check_422(upload([("other", "a", b"x")]), "body", "file")
    check_422(upload([("file", "a", b"x"), ("file", "b", b"x")]), "body", "file")
    check_422(upload([("file", "a", b"x")], "?filename=../a"), "query", "filename")
    assert se.get(f"/files/{sid}/").body == {"files": []}


def test_create(se: Se, shared: str) -> None:
    assert se.create(shared, "/made/ä.txt", "zwölf\n") == {"filename": "made/ä.txt", "size": 7}
    assert se.get(f"/download/{shared}/made/{quote('ä.txt')}").raw == "zwölf\n".encode()
    se.create(shared, "run.sh", "echo ran", mode=0o755)
    got = se.ok(f"/execute/{shared}", {"command": "./run.sh; stat -c %a run.sh made/*"})
    assert got["stdout"] == "ran\n755\n644\n"
    assert se.create(shared, "empty", "")["size"] == 0
    assert se.get(f"/download/{shared}/empty").raw == b""
    for name in ("/", ".", "made", "run.sh/x"):
        answer = se.post(f"/create/{shared}", {"filename": name, "content": "x"})
        check_detail(answer, 400, "InvalidParameter")


def test_list(se: Se, sid: str) -> None:
    se.create(sid, "b", "22")
    se.create(sid, "a/x/1", "1")
    for path in (f"/files/{sid}/", f"/files/{sid}"):
        files = se.get(path)["files"]
        assert [(f["filename"], f["size"], f["type"]) for f in files] == [
            ("a", 0, "directory"),
            ("b", 2, "file"),
        ]
    deep = se.get(f"/files/{sid}/a?recursive=true")["files"]
    assert [f["filename"] for f in deep] == ["x", "x/1"]
    check_detail(se.get(f"/files/{sid}/no"), 404, "InvalidParameter", "no")
    check_detail(se.get(f"/files/{sid}/b"), 400, "InvalidParameter")


def test_preview(se: Se, sid: str) -> None:
    se.create(sid, "page.html", "<script>alert(1)</script>")
    answer = se.get(f"/files/preview/{sid}/page.html?sid=1", is_checked=False)
    assert answer.status == 200 and answer.raw.startswith(b"<script>")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-disposition"].startswith("inline;")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in answer.headers["content-security-policy"]
    se.create(sid, "x.py", "1")
    check_detail(se.get(f"/files/preview/{sid}/x.py?sid=1"), 400, "InvalidParameter", ".html")
    check_detail(se.get(f"/files/preview/{sid}/no.txt?sid=1"), 404, "InvalidParameter")
    check_422(se.get(f"/files/preview/{sid}/page.html"), "query", "sid")


def test_read_file(se: Se, sid: str) -> None:
    def read(name: str, **query: int) -> Any:
        rest = "&".join(f"{k}={v}" for k, v in query.items())
        answer = se.get(f"/readfile/{sid}/{name}?{rest}")
        assert answer.status == 200, answer.raw
        return answer.body

    se.create(sid, "t.txt", "zwölf Boxkämpfer")
    size = len("zwölf Boxkämpfer".encode())
    assert read("t.txt") == {
        "content": "zwölf Boxkämpfer",
        "is_binary": False,
        "offset": size,
        "size": size,
        "is_eof": True,
    }
    text, at = "", 0
    while True:  # never in the middle of a character
        part = read("t.txt", offset=at, buffer_size=3)
        assert not part["is_binary"]
        text, at = text + part["content"], part["offset"]
        if part["is_eof"]:
            break
    assert text == "zwölf Boxkämpfer"
    past = read("t.txt", offset=1000)
    assert (past["content"], past["is_eof"], past["offset"]) == ("", True, size)

    data = pattern(10000)
    body, kind = form([("file", "d.bin", data)])
    se.post(f"/upload/{sid}", raw=body, headers={"Content-Type": kind})
    part = read("d.bin")
    assert part["is_binary"] and base64.b64decode(part["content"]) == data[:4096]
    assert (part["offset"], part["size"], part["is_eof"]) == (4096, 10000, False)
    part = read("d.bin", offset=8192, buffer_size=16777216)
    assert base64.b64decode(part["content"]) == data[8192:] and part["is_eof"]
    se.python(sid, "open('no-text.txt', 'wb').write(b'\\xff\\xfe\\xfd\\xfc\\xfb')")
    part = read("no-text.txt")
    assert part["is_binary"] and base64.b64decode(part["content"]) == b"\xff\xfe\xfd\xfc\xfb"
    check_detail(se.get(f"/readfile/{sid}/no.txt"), 404, "InvalidParameter")
    check_422(se.get(f"/readfile/{sid}/t.txt?offset=-1"), "query", "offset")
    check_422(se.get(f"/readfile/{sid}/t.txt?buffer_size=0"), "query", "buffer_size")


# ---- attacks ----


@pytest.mark.parametrize("path", TRAVERSALS, ids=[ascii(p)[:40] for p in TRAVERSALS])
def test_traversal(se: Se, shared: str, path: str) -> None:
    """Leading slashes mean the workspace here, so some of these are plain names that do not exist."""
    body, kind = form([("file", "a", b"attack")])
    answers = [
        se.get(f"/download/{shared}/{path}", is_checked=False),
        se.get(f"/readfile/{shared}/{path}", is_checked=False),
        se.get(f"/files/{shared}/{path}", is_checked=False),
        se.get(f"/files/preview/{shared}/{path}?sid=1", is_checked=False),
        se.post(
            f"/upload/{shared}?filename={path}",
            raw=body,
            headers={"Content-Type": kind},
            is_checked=False,
        ),
    ]
    for answer in answers:
        assert answer.status in (200, 400, 404, 422), (answer.status, answer.raw)
        check_no_leak(answer.raw)
    seen = se.ok(f"/execute/{shared}", {"command": "ls -A / /etc | grep -c attack; true"})
    assert seen["stdout"] == "0\n"


@pytest.mark.parametrize("name", ["../x", "a/../../x", "..", "/../x", "a/.."])
def test_traversal_in_bodies(se: Se, shared: str, name: str) -> None:
    check_422(se.post(f"/create/{shared}", {"filename": name, "content": "x"}), "body", "filename")


def test_planted_links(se: Se, sid: str) -> None:
    assert se.python(sid, plant_links() + "\nos.symlink('/etc/passwd', 'p.txt')")["returncode"] == 0
    for name in (
        "passwd",
        "environ",
        "up",
        "root/etc/passwd",
        "etc/passwd",
        "loop",
        "fifo",
        "p.txt",
    ):
        for path in (f"/download/{sid}/{name}", f"/readfile/{sid}/{name}", f"/files/{sid}/{name}"):
            answer = se.get(path)
            assert answer.status in (400, 404), (path, answer.raw)
            check_no_leak(answer.raw)
    answer = se.get(f"/files/preview/{sid}/p.txt?sid=1")
    assert answer.status == 400
    check_no_leak(answer.raw)
    assert se.post(f"/create/{sid}", {"filename": "etc/x", "content": "x"}).status == 400
    se.create(sid, "passwd", "mine")
    assert se.get(f"/download/{sid}/passwd").raw == b"mine"


def test_links_swapped_while_files_are_used(se: Se, sid: str) -> None:
    done: list[Any] = []
    thread = threading.Thread(target=lambda: done.append(se.python(sid, swap_loop(6))))
    thread.start()
    seen = set()
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        for path in (f"/download/{sid}/d/secret", f"/readfile/{sid}/d/secret"):
            answer = se.get(path)
            seen.add(answer.status)
            assert answer.status in (200, 400, 404), answer.raw
            assert b"outside" not in answer.raw
            assert base64.b64encode(b"outside") not in answer.raw
        answer = se.post(f"/create/{sid}", {"filename": "d/new", "content": "x"})
        assert answer.status in (200, 400, 404), answer.raw
    thread.join()
    assert done[0]["returncode"] == 0, done
    assert {200, 400} <= seen, seen
    assert se.ok(f"/execute/{sid}", {"command": "ls /tmp/out"})["stdout"] == "secret\n"


# ---- documents, and what is not there ----


def test_documents(se: Se) -> None:
    answer = se.get("/api.json")
    assert answer.status == 200 and answer.body["openapi"].startswith("3.1")
    assert all(path.startswith(BASE) for path in answer.body["paths"])
    page = se.get("/docs")
    assert page.headers["content-type"].startswith("text/html") and b"/workspace/se" in page.raw
    for path, etag in (("/api.json", answer.headers["etag"]), ("/docs", page.headers["etag"])):
        again = se.get(path, headers={"If-None-Match": etag})
        assert (again.status, again.raw) == (304, b"")
        packed = se.get(path, headers={"Accept-Encoding": "gzip"}, is_checked=False)
        assert packed.headers["content-encoding"] == "gzip"
        assert gzip.decompress(packed.raw) == se.get(path).raw


def test_documents_can_be_switched_off() -> None:
    with Server.run("--docs", "false") as server:
        se = Se(server.port)
        for path in ("/api.json", "/docs"):
            assert se.get(path, is_checked=False).status == 404


def test_vendor_store(se: Se, sid: str) -> None:
    answer = se.post(f"/download_from_efast/{sid}", {"file_params": [{"docid": "gns://1"}]})
    check_detail(answer, 501, "InternalError", "network")
    assert se.get(f"/status/{sid}")["exists"] is False


def test_unknown_routes(se: Se) -> None:
    answer = se.get("/nothing/here")
    check_detail(answer, 404, "InvalidParameter")
    assert se.call("DELETE", "/healthy", is_checked=False).status == 405
