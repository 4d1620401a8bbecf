# SPDX-License-Identifier: Apache-2.0
"""The /workspace/se dialect against a real huskd: running code."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from audit import kill_boxes
from file_samples import MIB
from husk_server import Server, server
from se_client import Se, check_422, check_detail, se, shared, sid

__all__ = ["se", "server", "shared", "sid"]


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
    check_detail(answer, 409, "InvalidParameter", "the session has reached its process limit")
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


# ---- memory and files of a session ----


def test_memory_and_workspace_are_separate() -> None:
    """A full workspace leaves a program its memory, and an empty one gives it no more."""
    with Server.run("--se-memory", "64M") as own:
        se = Se(own.port)
        for sid in ("both", "empty"):
            assert se.post(f"/session/{sid}", {"size": "48M"}).status == 200
        fill = "open('f', 'wb').write(bytes(40 << 20))"
        assert se.python("both", fill)["returncode"] == 0
        assert se.python("both", "x = bytearray(40 << 20); print(len(x) >> 20)")["stdout"] == "40\n"
        for code in (
            "x = bytearray(70 << 20)",
            "x = [bytearray(1 << 20) for i in range(70)]",
            "import subprocess, sys\n"
            "subprocess.run([sys.executable, '-c', 'x = bytearray(70 << 20)'], check=True)",
        ):
            got = se.python("empty", code)
            assert got["returncode"] != 0 and "MemoryError" in got["stderr"], code
        assert se.python("empty", "print(1)")["stdout"] == "1\n"


def test_the_bound_of_a_session_is_kept_by_its_next_box() -> None:
    """The interpreter of a session is made again after the end of its box."""
    with Server.run("--se-memory", "64M") as own:
        se = Se(own.port)
        se.python("kept", "a = 1")
        kill_boxes(own)
        se.python("kept", "1")  # may be told of that end
        assert "NameError" in se.python("kept", "a")["stderr"], "it is another one"
        got = se.python("kept", "x = bytearray(70 << 20)")
        assert got["returncode"] != 0 and "MemoryError" in got["stderr"]
