# SPDX-License-Identifier: Apache-2.0
"""The sandbox functions without Ray: sessions, results, time and memory limits, uploads, volumes,
what is refused.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import SdkServer

from husk import interpreter
from husk.errors import RayMissingError, UnknownSessionError
from husk.interpreter import (
    CodeInterpreterExecutor,
    cleanup_session,
    create_execute_python_tool,
    execute_code,
    execute_shell,
    get_session_stats,
    text_of,
    upload_file,
)
from husk.interpreter.local import LOCAL
from husk.interpreter.session import CodeInterpreter

pytestmark = pytest.mark.usefixtures("server")


@pytest.fixture(autouse=True)
def sessions() -> Iterator[None]:
    yield
    LOCAL.close()


def live_sessions(server: SdkServer) -> int:
    total: int = server.get("/api/v1/sessions?status=running").json["total"]
    return total


# ---- results ----


def test_hello_prints() -> None:
    result = execute_code("print('hello')", session_id="s")
    assert result["status"] == "success"
    assert (result["stdout"], result["stderr"], result["exit_code"]) == ("hello\n", "", 0)
    assert result["metrics"]["duration_ms"] > 0
    assert result["receipt"]["isolation"] == "full"
    assert result["receipt"]["limits"]["memory_bytes"] == 512 << 20
    assert result["receipt"]["limits"]["cpus"] == 1


def test_an_exception_is_in_stderr() -> None:
    result = execute_code("print('before')\n1 / 0", session_id="s")
    assert (result["status"], result["exit_code"], result["stdout"]) == ("error", 1, "before\n")
    assert result["stderr"].count("ZeroDivisionError: division by zero") == 1


def test_a_shell_command_has_its_own_exit_code() -> None:
    result = execute_shell("echo out; echo err >&2; exit 3", session_id="s")
    assert (result["status"], result["exit_code"]) == ("error", 3)
    assert (result["stdout"], result["stderr"]) == ("out\n", "err\n")


def test_empty_code_and_command_do_nothing() -> None:
    assert execute_code("", session_id="s")["status"] == "success"
    assert execute_shell("", session_id="s")["status"] == "success"


def test_execution_ids_have_one_counter() -> None:
    ids = [execute_code("1", session_id="a")["execution_id"]]
    ids.append(execute_shell("true", session_id="a")["execution_id"])
    ids.append(execute_code("1", session_id="a")["execution_id"])
    assert ids == ["a_1", "a_shell_2", "a_3"]


def test_a_session_without_a_name_ends_with_its_call(server: SdkServer) -> None:
    before = live_sessions(server)
    result = execute_code("print(1)")
    assert re.fullmatch(r"session-[0-9a-f]{8}-[0-9]{10}_1", result["execution_id"])
    assert live_sessions(server) == before


# ---- sessions ----


def test_variables_imports_functions_and_files_persist() -> None:
    execute_code(
        "import math\nx = 41\ndef f(y): return y + 1\nopen('/tmp/f', 'w').write('hi')", "s"
    )
    result = execute_code("print(f(x), math.floor(2.5), open('/tmp/f').read())", "s")
    assert result["stdout"] == "42 2 hi\n"
    assert execute_shell("cat /tmp/f", "s")["stdout"] == "hi"


def test_sessions_are_apart() -> None:
    execute_code("secret = 1", "one")
    result = execute_code("print(secret)", "two")
    assert result["status"] == "error" and "NameError" in result["stderr"]


def test_environment_stays_for_the_session() -> None:
    assert execute_shell("echo $A", "s", environment={"A": "1"})["stdout"] == "1\n"
    code = "import os; print(os.environ['A'], os.environ['B'])"
    assert execute_code(code, "s", environment={"B": "2"})["stdout"] == "1 2\n"
    assert execute_shell("echo $A$B", "s")["stdout"] == "12\n"


def test_stats_count_executions() -> None:
    for _ in range(3):
        execute_code("1", "s")
    stats = get_session_stats("s")
    assert (stats["session_id"], stats["execution_count"]) == ("s", 3)
    assert stats["container_status"] == "running"
    assert stats["metrics"]["executions"] == 3
    assert 0 < stats["uptime"] < 600 and stats["created_at"] > 1e9


def test_an_executor_has_no_box_before_its_first_use(server: SdkServer) -> None:
    before = live_sessions(server)
    executor = CodeInterpreterExecutor("own")
    assert executor.get_session_stats()["container_status"] == "none"
    assert executor.get_session_stats()["execution_count"] == 0
    assert live_sessions(server) == before
    assert executor.execute_code("print(7)", timeout=5)["stdout"] == "7\n"
    assert executor.get_session_stats()["container_status"] == "running"
    assert executor.cleanup_session() == {"status": "success", "session_id": "own"}
    assert live_sessions(server) == before


def test_cleanup_ends_the_box(server: SdkServer) -> None:
    before = live_sessions(server)
    execute_code("x = 1", "s")
    assert live_sessions(server) == before + 1
    assert cleanup_session("s") == {"status": "success", "session_id": "s"}
    assert live_sessions(server) == before
    assert "NameError" in execute_code("print(x)", "s")["stderr"]


def test_cleanup_of_an_unknown_session_is_an_error_result() -> None:
    result = cleanup_session("nobody")
    assert (result["status"], result["session_id"]) == ("error", "nobody")
    assert "nobody" in result["error"]


def test_unknown_sessions_raise_value_errors() -> None:
    with pytest.raises(ValueError, match="nobody") as caught:
        get_session_stats("nobody")
    assert isinstance(caught.value, UnknownSessionError)
    with pytest.raises(ValueError, match="nobody"):
        upload_file("x", b"", "nobody")


def test_sessions_end_with_their_process(server: SdkServer) -> None:
    before = live_sessions(server)
    code = "from husk.interpreter import execute_code as e; print(e('print(5)', 's')['stdout'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("5\n\n", "")
    assert live_sessions(server) == before


def test_an_ended_session_is_told_once_and_starts_afresh(server: SdkServer) -> None:
    execute_code("x = 1", "s")
    held = get_session_stats("s")["metrics"]["session_id"]
    assert server.delete(f"/api/v1/sessions/{held}").status == 200
    told = execute_code("print(x)", "s")
    assert told["error_type"] == "SessionEndedError" and told["execution_id"] == "s_2"
    assert execute_code("print('fresh')", "s")["stdout"] == "fresh\n"


# ---- limits ----


def test_timeout_kills_everything_and_keeps_the_output() -> None:
    code = (
        "import subprocess, time\nsubprocess.Popen(['sleep', '4321'])\nprint('so far', flush=True)\n"
        "while True:\n    try: time.sleep(100)\n    except BaseException: pass"
    )
    result: Any = execute_code(code, "s", timeout=1)
    assert (result["status"], result["error_type"]) == ("error", "TimeoutError")
    assert "1 seconds" in result["error"] and result["execution_id"] == "s_1"
    assert not {"stdout", "stderr", "exit_code"} & set(result)
    assert result["partial_stdout"] == "so far\n"
    left = execute_shell("cat /proc/[0-9]*/cmdline | tr '\\0' ' '", "s")["stdout"]
    assert "4321" not in left


def test_a_shell_command_that_times_out_is_dead() -> None:
    result = execute_shell("sleep 4322 & sleep 4323", "s", timeout=1)
    assert result["error_type"] == "TimeoutError"
    assert "432" not in execute_shell("cat /proc/[0-9]*/cmdline | tr '\\0' ' '", "s")["stdout"]


def test_a_cell_that_can_be_interrupted_keeps_variables() -> None:
    assert execute_code("x = 5\nimport time; time.sleep(60)", "s", timeout=1)["status"] == "error"
    assert execute_code("print(x)", "s")["stdout"] == "5\n"


def test_memory_limit() -> None:
    result = execute_code("b = bytearray(900 << 20)", "s")
    assert (result["status"], result["error_type"]) == ("error", "MemoryError")
    assert execute_code("print('on')", "s")["stdout"] == "on\n"


@pytest.mark.parametrize("timeout", [0, -1, 3601, True, "30", float("nan")])
def test_bad_timeouts_are_refused(timeout: Any) -> None:
    result = execute_code("1", "s", timeout=timeout)
    assert result["error_type"] == "InvalidParameterError" and "timeout" in result["error"]


def test_code_that_is_no_text_is_refused() -> None:
    bad: Any = b"1"
    assert execute_code(bad, "s")["error_type"] == "InvalidParameterError"


# ---- files ----


@pytest.mark.parametrize(
    "path, seen",
    [
        ("data.csv", "/workspace/data.csv"),
        ("/workspace/a/b c.txt", "/workspace/a/b c.txt"),
        ("/tmp/data.csv", "/tmp/data.csv"),
        ("/tmp/new dir/'q'; echo $x", "/tmp/new dir/'q'; echo $x"),
    ],
)
def test_upload_then_read(path: str, seen: str) -> None:
    execute_code("1", "s")
    data = bytes(range(256)) * 3
    assert upload_file(path, data, "s") == {"status": "success", "path": path, "size": len(data)}
    result = execute_code(f"print(open({seen!r}, 'rb').read() == bytes(range(256)) * 3)", "s")
    assert result["stdout"] == "True\n"


@pytest.mark.parametrize("path", ["/etc/passwd", "../../etc/x", "", "/tmp", "a\0b"])
def test_uploads_that_cannot_be_are_error_results(path: str) -> None:
    execute_code("1", "s")
    result = upload_file(path, b"x", "s")
    assert result["status"] == "error" and result["error"] and result["error_type"]
    assert execute_shell("ls -A /workspace", "s")["stdout"] == ""  # nothing is left behind


# ---- what is refused ----


def test_images_name_templates() -> None:
    assert execute_code("print(1)", "a", image="python")["stdout"] == "1\n"
    assert execute_code("print(1)", "b", image="python:3.12-slim")["stdout"] == "1\n"
    result = execute_code("print(1)", "c", image="ubuntu:22.04")
    assert result["error_type"] == "BackendUnavailableError"
    assert "container back end" in result["error"] and "python-datascience" in result["error"]


@pytest.mark.parametrize("image", ["python:3.12-slim", "pyrunner"])
def test_a_refused_image_leaves_the_name_free(image: str) -> None:
    """The first call names the session, with an image that does not exist; the next one corrects
    it.
    """
    refused = execute_code("print(1)", "c", image="ubuntu:22.04")
    assert refused["error_type"] == "BackendUnavailableError"
    assert execute_code("print(1)", "c", image=image)["stdout"] == "1\n"
    assert execute_code("1", "c", image="ubuntu:22.04")["error_type"] == "ConflictError"
    assert execute_code("print(2)", "c")["stdout"] == "2\n"


def test_an_object_keeps_the_image_that_it_was_made_with() -> None:
    """It never runs in another one than its maker named."""
    session = CodeInterpreter("s", image="ubuntu:22.04")
    for _ in range(2):
        assert session.execute_code("1")["error_type"] == "BackendUnavailableError"
    session.cleanup_session()


def test_a_session_keeps_its_image() -> None:
    assert execute_code("1", "s", image="pyrunner")["status"] == "success"
    assert execute_code("1", "s")["status"] == "success"  # the default means: as it is
    assert execute_code("1", "s", image="python")["error_type"] == "ConflictError"


@pytest.mark.parametrize(
    "options",
    [
        {"environment": {"N": 1}},
        {"environment": {"A B": "x"}},
        {"environment": {"A": "x\0"}},
        {"environment": {"A": "\ud800"}},
        {"environment": {f"A{n}": "" for n in range(300)}},
        {"environment": {"OK": "kept?"}, "volumes": {"/no/such/path": {"bind": "/workspace/v"}}},
        {"volumes": {"/etc": "no dict"}},
        {"image": "pyrunner", "environment": {"N": 1}},
        {"image": "ubuntu:22.04"},
    ],
)
def test_what_was_refused_does_not_spoil_later_calls(options: dict[str, Any]) -> None:
    session = CodeInterpreter("s")
    refused = session.execute_code("1", **options)
    assert refused["status"] == "error", refused
    after = session.execute_code("import os; print(os.environ.get('OK'), os.environ.get('A'))")
    assert after["status"] == "success" and after["stdout"] == "None None\n", after
    assert session.image == "python:3.12-slim"
    session.cleanup_session()


def test_dockerfile_and_allowlist_are_refused() -> None:
    result = execute_code("print(1)", "s", dockerfile="FROM python:3.12-slim")
    assert (
        result["error_type"] == "BackendUnavailableError"
        and "container back end" in result["error"]
    )
    for allowlist in (["http://127.0.0.1:1"], []):
        result = execute_code("print(1)", "s", mcp_allowlist=allowlist)
        assert result["error_type"] == "EgressUnavailableError"
    executor = CodeInterpreterExecutor("x", dockerfile="FROM x")
    assert executor.execute_code("1")["error_type"] == "BackendUnavailableError"
    assert executor.upload_file("x", b"")["error_type"] == "BackendUnavailableError"


@pytest.mark.parametrize(
    "variables",
    [
        {"RAYAI_SANDBOX_RUNTIME": "runsc"},
        {"RAYAI_SANDBOX_RUNTIME": "runsc", "RAYAI_STRICT_GVISOR": "true"},
        {"RAYAI_STRICT_GVISOR": "1"},
        {"RAYAI_STRICT_GVISOR": "perhaps"},
        {"RAYAI_SANDBOX_RUNTIME": "runc"},
        {"RAYAI_SANDBOX_BACKEND": "kubernetes"},
        {"RAYAI_SANDBOX_BACKEND": "docker"},
        {"RAYAI_SANDBOX_BACKEND": "Firecracker"},
    ],
)
def test_other_isolation_is_refused(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    result = execute_code("print('ran')", "s")
    assert result["error_type"] == "BackendUnavailableError" and "stdout" not in result
    assert any(name in result["error"] for name in variables)


@pytest.mark.parametrize(
    "variables",
    [
        {"RAYAI_SANDBOX_RUNTIME": "native", "RAYAI_SANDBOX_BACKEND": "auto"},
        {"RAYAI_STRICT_GVISOR": "0", "RAYAI_SANDBOX_BACKEND": "husk"},
        {"RAYAI_SANDBOX_TEMPLATE": "t", "RAYAI_SANDBOX_NAMESPACE": "n", "DOCKER_HOST": "unix:///x"},
    ],
)
def test_own_isolation_is_not_refused(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    result = execute_code("print(1)", "s")
    assert result["stdout"] == "1\n" and "fallback" not in result["receipt"]


def test_a_fallback_that_was_asked_for_is_in_the_receipt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAYAI_SANDBOX_RUNTIME", "runsc")
    monkeypatch.setenv("RAYAI_STRICT_GVISOR", "false")
    receipt = execute_code("1", "s")["receipt"]
    assert (receipt["backend"], receipt["runtime_requested"], receipt["fallback"]) == (
        "native",
        "runsc",
        True,
    )


# ---- tools and text ----


def test_text_of_results() -> None:
    def text(code: str) -> str:
        return text_of(execute_code(code, "s", timeout=1))

    assert text("print('a')") == "a"
    assert text("x = 1") == "(no output)"
    assert text("import sys; print('a'); print('b', file=sys.stderr)") == "a\n[stderr]: b"
    assert text("import sys; print('b', file=sys.stderr)") == "(no output)\n[stderr]: b"
    assert text("1 / 0").startswith("Error: Traceback") and text("1 / 0").endswith(
        "division by zero"
    )
    assert text("while True: pass").startswith("Error: Execution timed out after 1 seconds")
    assert text_of(execute_shell("exit 4", "s")) == "Error: exit code 4"


def test_the_python_tool() -> None:
    with pytest.warns(DeprecationWarning):
        tool: Any = create_execute_python_tool("t")
    assert asyncio.run(tool("x = 2")) == "(no output)"
    assert asyncio.run(tool(code="print(x)")) == "2"
    assert get_session_stats("t")["execution_count"] == 2
    assert tool.__name__ == "execute_python" and tool._rayai_tool is True
    assert tool._tool_metadata["description"].startswith("Run Python code")
    assert tool._original_func("print(x + 1)") == "3"
    assert tool._remote_func.remote("print(x + 2)").result(60) == "4"
    assert tool._get_remote_func() is tool._remote_func
    with pytest.warns(DeprecationWarning), pytest.raises(Exception, match="container back end"):
        create_execute_python_tool(dockerfile="FROM x")


def test_calls_at_the_same_time_have_their_own_results() -> None:
    async def run() -> list[Any]:
        calls = [asyncio.to_thread(execute_code, f"print({n})", f"s{n % 3}") for n in range(12)]
        return list(await asyncio.gather(*calls))

    results = asyncio.run(run())
    assert [r["stdout"] for r in results] == [f"{n}\n" for n in range(12)]
    assert len({r["execution_id"] for r in results}) == 12


def test_the_functions_pickle_by_name() -> None:
    for function in (execute_code, upload_file, cleanup_session):
        assert pickle.loads(pickle.dumps(function)) is function
    assert interpreter.execute_code.__name__ == "execute_code"


def test_remote_without_ray_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "ray.py").write_text("raise ImportError('not here')")
    code = (
        "from husk.interpreter import execute_code\n"
        "try: execute_code.remote('1')\n"
        "except ImportError as e: print(type(e).__name__, e)\n"
        "print(execute_code('print(3)')['stdout'])"
    )
    path = os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"]])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (
        done.stdout.startswith(RayMissingError.__name__) and "install 'ray[serve]'" in done.stdout
    ), done.stderr
    assert done.stdout.endswith("3\n\n")
