# SPDX-License-Identifier: Apache-2.0
"""The sandbox functions under Ray: remote calls, actors by name, shared sessions, lost ones,
`Sandbox` in a cluster.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import SdkServer
from ray_support import ray_cluster  # noqa: F401
from waiting import wait_until

from husk.errors import UnknownSessionError
from husk.interpreter import ray as interpreter_ray
from rayai import Sandbox
from rayai.sandbox import (
    CodeInterpreterExecutor,
    cleanup_session,
    create_execute_python_tool,
    execute_code,
    execute_shell,
    get_session_stats,
    upload_file,
)


@pytest.fixture(autouse=True)
def ray(ray_cluster: Any) -> Iterator[Any]:  # noqa: F811
    yield ray_cluster
    for actor in ray_cluster.util.list_named_actors(all_namespaces=True):
        if actor["namespace"] == "sandbox":
            prefix, _, session = actor["name"].partition("code-executor-")
            assert prefix == "" and session, f"a test left {actor} behind"
            assert cleanup_session(session)["status"] == "success"


def actors(ray: Any) -> set[str]:
    found = ray.util.list_named_actors(all_namespaces=True)
    return {actor["name"] for actor in found if actor["namespace"] == "sandbox"}


def test_the_quick_start(ray: Any) -> None:
    result = ray.get(execute_code.remote("print('Hello, World!')"))
    assert result["stdout"] == "Hello, World!\n" and result["receipt"]["isolation"] == "full"
    assert ray.get(execute_shell.remote("echo $((6 * 7))"))["stdout"] == "42\n"
    assert actors(ray) == set()  # sessions without a name end with their call


def test_a_session_is_shared_by_all_processes(ray: Any) -> None:
    ray.get(execute_code.remote("x = 42", session_id="m"))
    assert ray.get(execute_code.remote("print(x * 2)", session_id="m"))["stdout"] == "84\n"
    assert execute_code("print(x)", session_id="m")["stdout"] == "42\n"
    ray.get(execute_shell.remote("echo data > /tmp/f", session_id="m"))

    def elsewhere() -> Any:
        return os.getpid(), execute_code("print(open('/tmp/f').read())", session_id="m")

    pid, result = ray.get(ray.remote(elsewhere).options(num_cpus=0).remote())
    assert pid != os.getpid() and result["stdout"] == "data\n\n"
    assert result["execution_id"] == "m_5"  # one counter for all
    assert actors(ray) == {"code-executor-m"}


def test_upload_stats_and_cleanup(ray: Any, server: SdkServer) -> None:
    ray.get(execute_code.remote("1", session_id="u"))
    data = b"name,value\nada,1\n"
    answer = ray.get(upload_file.remote("/tmp/data.csv", data, session_id="u"))
    assert answer == {"status": "success", "path": "/tmp/data.csv", "size": len(data)}
    read = ray.get(
        execute_code.remote("print(open('/tmp/data.csv').read(), end='')", session_id="u")
    )
    assert read["stdout"].encode() == data
    stats = ray.get(get_session_stats.remote("u"))
    assert (stats["execution_count"], stats["container_status"]) == (2, "running")
    assert ray.get(cleanup_session.remote("u")) == {"status": "success", "session_id": "u"}
    assert actors(ray) == set()
    held = stats["metrics"]["session_id"]
    assert server.get(f"/api/v1/sessions/{held}").json["status"] == "terminated"
    assert ray.get(cleanup_session.remote("u"))["status"] == "error"


def test_unknown_sessions(ray: Any) -> None:
    with pytest.raises(ValueError, match="nobody"):
        ray.get(get_session_stats.remote("nobody"))
    with pytest.raises(UnknownSessionError):
        upload_file("x", b"", "nobody")


def test_the_actor_has_the_promised_place(ray: Any) -> None:
    execute_code("1", session_id="r")
    handle = ray.get_actor("code-executor-r", namespace="sandbox")

    def resources(self: Any) -> Any:
        import ray

        return ray.get_runtime_context().get_assigned_resources()

    assert ray.get(handle.__ray_call__.remote(resources)) == {"CPU": 1, "memory": 1 << 30}
    assert ray.get(handle.execute_code.remote("print(1)"))["stdout"] == "1\n"


def test_timeout_kills_and_figures_do_not_wait(ray: Any) -> None:
    execute_code("1", session_id="t")
    running = execute_code.remote(
        "import time\nwhile True: time.sleep(1)", session_id="t", timeout=4
    )
    wait_until(lambda: bool(get_session_stats("t")["execution_count"] == 2), "it runs")
    ready, _ = ray.wait([running], timeout=0)
    assert not ready  # the figures came while it ran
    result = ray.get(running)
    assert result["error_type"] == "TimeoutError" and "4 seconds" in result["error"]


def test_options_of_ray_work(ray: Any) -> None:
    ref = execute_code.options(num_cpus=0.5, name="mine").remote("print(3)")
    assert ray.get(ref)["stdout"] == "3\n"
    handle = CodeInterpreterExecutor.options(num_cpus=0.5).remote(session_id="own")
    assert ray.get(handle.get_session_stats.remote())["container_status"] == "none"
    assert ray.get(handle.execute_shell.remote("echo hi"))["execution_id"] == "own_shell_1"
    assert ray.get(handle.cleanup_session.remote())["status"] == "success"
    ray.kill(handle)


def test_the_callers_wishes_travel(ray: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAYAI_STRICT_GVISOR", "true")
    result = ray.get(execute_code.remote("print('ran')", session_id="w"))
    assert result["error_type"] == "BackendUnavailableError" and "stdout" not in result
    monkeypatch.delenv("RAYAI_STRICT_GVISOR")
    result = ray.get(execute_code.remote("1", session_id="w", dockerfile="FROM x"))
    assert result["error_type"] == "BackendUnavailableError"
    assert actors(ray) == set()


def test_a_lost_session_is_told_once(ray: Any) -> None:
    execute_code("x = 1", session_id="l")
    ray.kill(ray.get_actor("code-executor-l", namespace="sandbox"))
    wait_until(lambda: "code-executor-l" not in actors(ray), "the actor is gone")
    told = execute_code("print(x)", session_id="l")
    assert told["error_type"] == "NodeLostError" and "variables and files" in told["error"]
    assert execute_code("print('fresh')", session_id="l")["stdout"] == "fresh\n"


def test_a_session_lost_during_a_run_is_told(ray: Any) -> None:
    execute_code("1", session_id="d")
    handle = ray.get_actor("code-executor-d", namespace="sandbox")
    pid = ray.get(handle.__ray_call__.remote(lambda self: os.getpid()))
    running = execute_code.remote("import time; time.sleep(60)", session_id="d", timeout=100)
    wait_until(lambda: bool(get_session_stats("d")["execution_count"] == 2), "it runs")
    os.kill(pid, signal.SIGKILL)
    assert ray.get(running, timeout=60)["error_type"] == "NodeLostError"
    assert execute_code("print(1)", session_id="d")["stdout"] == "1\n"


def test_an_idle_session_ends_itself(ray: Any, server: SdkServer) -> None:
    # The limit is a constant of the module; only the actor's process gets another one.
    execute_code("1", session_id="i")
    held = get_session_stats("i")["metrics"]["session_id"]
    handle = ray.get_actor("code-executor-i", namespace="sandbox")

    def hurry(self: Any) -> None:
        from husk.interpreter import policy as interpreter_policy

        interpreter_policy.SESSION_TIMEOUT = 0
        import threading

        threading.Thread(target=self._watch, daemon=True).start()

    ray.get(handle.__ray_call__.remote(hurry))
    wait_until(lambda: "code-executor-i" not in actors(ray), "the actor is gone")
    assert server.get(f"/api/v1/sessions/{held}").json["status"] == "terminated"
    assert not interpreter_ray._is_recorded("code-executor-i")  # ended, not lost


def test_no_room_is_an_error_and_leaves_nothing(ray: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        assert execute_code("1", session_id=name)["status"] == "success"
    monkeypatch.setattr(interpreter_ray, "START_SECONDS", 0.5)
    result = execute_code("1", session_id="c")
    assert result["error_type"] == "UnavailableError" and "cleanup_session" in result["error"]
    assert "code-executor-c" not in actors(ray)


def test_sandbox_in_a_cluster(ray: Any) -> None:
    with Sandbox(session_id="box") as sandbox:
        assert asyncio.run(sandbox.run_code("x = 5; print(x)")) == "5"
        assert actors(ray) == {"sandbox-box"}

        def guest(copy: Sandbox) -> str:
            with copy:
                text: str = asyncio.run(copy.run_code("print(x + 1)"))
                return text

        assert ray.get(ray.remote(guest).options(num_cpus=0).remote(sandbox)) == "6"
        assert sandbox.exec("echo on").text == "on\n"  # the guest did not end it
        assert ray.get(sandbox.bash._remote_func.remote("echo task")) == "task"
    assert actors(ray) == set()


def test_the_python_tool_under_ray(ray: Any) -> None:
    with pytest.warns(DeprecationWarning):
        tool: Any = create_execute_python_tool("p")
    assert asyncio.run(tool("print(1)")) == "1"
    assert ray.get(tool._remote_func.remote("print(2)")) == "2"
    assert actors(ray) == {"code-executor-p"}
