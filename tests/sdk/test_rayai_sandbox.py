# SPDX-License-Identifier: Apache-2.0
"""`rayai.Sandbox`: tools for agents, exec, upload, ownership; with a real Pydantic AI
agent.
"""

from __future__ import annotations

import asyncio
import inspect
import pickle
import re
from typing import Any

import cloudpickle  # type: ignore[import-untyped, unused-ignore]
import pytest
from conftest import SdkServer
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from husk.errors import BackendUnavailableError, HuskError
from husk.interpreter.local import LOCAL
from rayai import Sandbox, execute_tools
from rayai.sandbox import ExecResult

pytestmark = pytest.mark.usefixtures("server")


def live_sessions(server: SdkServer) -> int:
    total: int = server.get("/api/v1/sessions?status=running").json["total"]
    return total


def test_nothing_is_started_before_the_first_use(server: SdkServer) -> None:
    before = live_sessions(server)
    with Sandbox() as sandbox:
        assert re.fullmatch("sandbox-[0-9a-f]{8}", sandbox.session_id)
        assert live_sessions(server) == before
        assert sandbox.exec("echo hi").text == "hi\n"
        assert live_sessions(server) == before + 1
    assert live_sessions(server) == before


def test_exec_results() -> None:
    with Sandbox() as sandbox:
        good = sandbox.exec("echo out; echo err >&2")
        assert isinstance(good, ExecResult)
        assert (good.stdout, good.stderr, good.exit_code) == ("out\n", "err\n", 0)
        assert good.success and good.text == "out\n"
        assert good.metrics["duration_ms"] > 0 and good.receipt["isolation"] == "full"
        bad = sandbox.exec("exit 7")
        assert (bad.exit_code, bad.success) == (7, False)


def test_exec_that_takes_too_long_raises() -> None:
    with Sandbox(timeout=1) as sandbox:
        with pytest.raises(TimeoutError, match="1 seconds"):
            sandbox.exec("sleep 60")
        assert sandbox.exec("sleep 2; echo done", timeout=20).text == "done\n"


def test_upload_and_its_failures() -> None:
    with Sandbox() as sandbox:
        sandbox.upload("/tmp/data.csv", b"a,b\n1,2")
        assert sandbox.exec("cat /tmp/data.csv").text == "a,b\n1,2"
        with pytest.raises(HuskError, match="/proc/x"):
            sandbox.upload("/proc/x", b"")


def test_the_tools_answer_with_text() -> None:
    async def use(sandbox: Sandbox) -> list[str]:
        return [
            await sandbox.run_code("x = 2; print(x)"),
            await sandbox.run_code("y = x"),
            await sandbox.bash("echo out; echo err >&2"),
            await sandbox.run_code("1 / 0"),
            await sandbox.bash("exit 3"),
        ]

    with Sandbox() as sandbox:
        texts = asyncio.run(use(sandbox))
    assert texts[:3] == ["2", "(no output)", "out\n[stderr]: err"]
    assert texts[3].startswith("Error: Traceback") and "ZeroDivisionError" in texts[3]
    assert texts[4] == "Error: exit code 3"


def test_other_session_ids_are_boxes_of_their_own(server: SdkServer) -> None:
    before = live_sessions(server)
    with Sandbox() as sandbox:
        asyncio.run(sandbox.run_code("x = 1"))
        assert "NameError" in asyncio.run(sandbox.run_code("print(x)", session_id="ada"))
        assert asyncio.run(sandbox.run_code("x = 2", session_id="ada")) == "(no output)"
        assert asyncio.run(sandbox.run_code("print(x)")) == "1"
        assert asyncio.run(sandbox.run_code("print(x)", "ada")) == "2"
        assert live_sessions(server) == before + 2
    assert live_sessions(server) == before


def test_only_the_one_who_made_it_ends_it() -> None:
    owner = Sandbox(session_id="shared")
    guest = Sandbox(session_id="shared")
    owner.exec("echo kept > /tmp/f")
    assert guest.exec("cat /tmp/f").text == "kept\n"
    guest.terminate()
    assert owner.exec("cat /tmp/f").text == "kept\n"
    copied = pickle.loads(pickle.dumps(owner))
    assert copied.exec("cat /tmp/f").text == "kept\n"
    copied.terminate()
    assert owner.exec("cat /tmp/f").text == "kept\n"
    owner.terminate()
    owner.terminate()
    assert LOCAL.find("sandbox-shared", "shared") is None


def test_functions_and_sandbox_do_not_meet() -> None:
    from rayai.sandbox import execute_code

    with Sandbox(session_id="both") as sandbox:
        asyncio.run(sandbox.run_code("x = 1"))
        assert "NameError" in execute_code("print(x)", session_id="both")["stderr"]
    LOCAL.close()


def test_async_with(server: SdkServer) -> None:
    before = live_sessions(server)

    async def use() -> str:
        async with Sandbox() as sandbox:
            text: str = await sandbox.run_code("print('hi')")
            return text

    assert asyncio.run(use()) == "hi"
    assert live_sessions(server) == before


def test_a_dockerfile_is_refused_at_once() -> None:
    with pytest.raises(BackendUnavailableError, match="container back end"):
        Sandbox(dockerfile="FROM python:3.12-slim")


def test_refusals_reach_both_kinds_of_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox = Sandbox(image="ubuntu:22.04")
    assert asyncio.run(sandbox.run_code("1")).startswith(
        "Error: image 'ubuntu:22.04' is not a template"
    )
    with pytest.raises(BackendUnavailableError, match="not a template"):
        sandbox.exec("true")
    sandbox.terminate()
    monkeypatch.setenv("RAYAI_STRICT_GVISOR", "true")
    with pytest.raises(BackendUnavailableError, match="gVisor"):
        Sandbox()


def test_the_tools_are_tools() -> None:
    sandbox = Sandbox()
    for tool, name in ((sandbox.run_code, "run_code"), (sandbox.bash, "bash")):
        assert inspect.iscoroutinefunction(tool)
        assert tool.__name__ == name and tool._rayai_tool is True
        assert tool._tool_metadata["description"] == inspect.getdoc(tool)
        assert callable(tool._original_func) and hasattr(tool._remote_func, "remote")


def test_execute_tools_runs_them_in_parallel() -> None:
    with Sandbox() as sandbox:
        calls = [(sandbox.bash, {"command": f"echo {n}", "session_id": f"s{n}"}) for n in range(3)]
        assert execute_tools(calls, parallel=True) == ["0", "1", "2"]


def test_a_tool_travels_with_its_sandbox() -> None:
    with Sandbox() as sandbox:
        asyncio.run(sandbox.run_code("x = 3"))
        copied = cloudpickle.loads(cloudpickle.dumps(sandbox.run_code))
        assert asyncio.run(copied("print(x)")) == "3"


def test_an_agent_uses_the_tools() -> None:
    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        assert {tool.name for tool in info.function_tools} == {"run_code", "bash"}
        returned = [
            part
            for message in messages
            for part in message.parts
            if isinstance(part, ToolReturnPart)
        ]
        if not returned:
            return ModelResponse(parts=[ToolCallPart("run_code", {"code": "print(6 * 7)"})])
        return ModelResponse(parts=[TextPart(f"it is {returned[0].content}")])

    with Sandbox() as sandbox:
        agent: Any = Agent(FunctionModel(model), tools=[sandbox.run_code, sandbox.bash])
        assert agent.run_sync("6 * 7?").output == "it is 42"
