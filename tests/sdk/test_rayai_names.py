# SPDX-License-Identifier: Apache-2.0
"""Every name, argument and default of the rayai API, and that importing it imports no framework."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import inspect
import json
import os
import pickle
import subprocess
import sys
from typing import Any

import pytest

import husk
import husk.errors
import rayai
import rayai.sandbox
from rayai.sandbox import config, executor, tools, types

REQUIRED = inspect.Parameter.empty


def defaults(function: Any) -> dict[str, Any]:
    return {p.name: p.default for p in inspect.signature(function).parameters.values()}


EXECUTION = {
    "session_id": None,
    "image": "python:3.12-slim",
    "dockerfile": None,
    "environment": None,
    "volumes": None,
    "mcp_allowlist": None,
    "timeout": 30,
}

# What the API must have at least; husk adds keyword arguments of its own to some.
SIGNATURES: list[tuple[Any, dict[str, Any]]] = [
    (
        rayai.serve,
        {
            "agent": REQUIRED,
            "name": None,
            "host": "127.0.0.1",  # the original listens on every address, without a key
            "port": 8000,
            "num_cpus": 1,
            "num_gpus": 0,
            "memory": "2GB",
            "replicas": 1,
            "route_prefix": None,
        },
    ),
    (
        rayai.serve_mcp,
        {
            "mcp_server": REQUIRED,
            "name": None,
            "num_cpus": 1,
            "num_gpus": 0,
            "memory": "512MB",
            "replicas": 1,
            "route_prefix": None,
        },
    ),
    (rayai.batch_tool, {"tools": REQUIRED, "name": "batch", "description": None}),
    (rayai.sandbox.execute_code, {"code": REQUIRED, **EXECUTION}),
    (rayai.sandbox.execute_shell, {"command": REQUIRED, **EXECUTION}),
    (rayai.sandbox.upload_file, {"path": REQUIRED, "content": REQUIRED, "session_id": REQUIRED}),
    (rayai.sandbox.get_session_stats, {"session_id": REQUIRED}),
    (rayai.sandbox.cleanup_session, {"session_id": REQUIRED}),
    (
        rayai.sandbox.create_execute_python_tool,
        {"session_id": "default", "dockerfile": None, "timeout": 30},
    ),
    (
        rayai.Sandbox,
        {"dockerfile": None, "image": "python:3.12-slim", "timeout": 30, "session_id": None},
    ),
    (rayai.Sandbox.exec, {"self": REQUIRED, "command": REQUIRED, "timeout": None}),
    (rayai.Sandbox.upload, {"self": REQUIRED, "path": REQUIRED, "content": REQUIRED}),
    (rayai.Sandbox().run_code, {"code": REQUIRED, "session_id": "default"}),
    (rayai.Sandbox().bash, {"command": REQUIRED, "session_id": "default"}),
]


@pytest.mark.parametrize("function, wanted", SIGNATURES, ids=lambda x: getattr(x, "__name__", ""))
def test_arguments_in_order_with_their_defaults(function: Any, wanted: dict[str, Any]) -> None:
    assert list(defaults(function).items())[: len(wanted)] == list(wanted.items())


def test_execute_tools_takes_calls_and_parallel() -> None:
    found = list(inspect.signature(rayai.execute_tools).parameters.values())
    assert found[1].name == "parallel" and found[1].default is False


def test_tool_takes_limits() -> None:
    @rayai.tool
    def plain(x: int) -> int:
        return x

    @rayai.tool(num_cpus=2, num_gpus=0, memory="1GB")
    def limited(x: int) -> int:
        """Limited."""
        return x

    assert plain._tool_metadata == {
        "description": "Calls plain",
        "num_cpus": 1,
        "num_gpus": 0,
        "memory": None,
    }
    assert limited._tool_metadata == {
        "description": "Limited.",
        "num_cpus": 2,
        "num_gpus": 0,
        "memory": "1GB",
    }
    for name in (
        "_rayai_tool",
        "_remote_func",
        "_get_remote_func",
        "_tool_metadata",
        "_original_func",
    ):
        assert hasattr(plain, name)
    assert inspect.iscoroutinefunction(plain)


def test_the_names_are_husks() -> None:
    for name in (
        "tool",
        "serve",
        "serve_mcp",
        "execute_tools",
        "batch_tool",
        "Agent",
        "AgentProtocol",
    ):
        assert getattr(rayai, name) is getattr(husk, name), name
    assert rayai.BatchTool is husk.BatchTool
    assert rayai.sandbox.Sandbox is rayai.Sandbox
    assert rayai.__version__ == husk.__version__
    with pytest.raises(AttributeError, match="nothing"):
        getattr(rayai, "nothing")


def test_all_listed_names_exist() -> None:
    for module in (rayai, rayai.sandbox, config, types, tools, executor):
        for name in module.__all__:
            assert getattr(module, name) is not None, name
            assert name in dir(module)
    assert tools.execute_code is rayai.sandbox.execute_code is husk.execute_code
    assert executor.CodeInterpreterExecutor is rayai.sandbox.CodeInterpreterExecutor


@pytest.mark.parametrize(
    "kind, fields",
    [
        (types.ExecutionResult, {"status", "stdout", "stderr", "exit_code", "execution_id"}),
        (types.ExecutionError, {"status", "error", "error_type", "execution_id"}),
        (types.UploadResult, {"status", "path", "size"}),
        (types.UploadError, {"status", "error", "error_type"}),
        (
            types.SessionStats,
            {"session_id", "execution_count", "created_at", "uptime", "container_status"},
        ),
        (types.CleanupResult, {"status", "session_id"}),
        (types.CleanupError, {"status", "error", "session_id"}),
        (types.InstallResult, {"status"}),
        (types.InstallError, {"status", "error", "error_type"}),
    ],
)
def test_result_types_have_their_fields(kind: Any, fields: set[str]) -> None:
    declared = {f.name: f for f in dataclasses.fields(kind)}
    assert fields <= set(declared)
    none = (dataclasses.MISSING, dataclasses.MISSING)
    assert all((declared[n].default, declared[n].default_factory) == none for n in fields)
    if kind is types.ExecutionError:
        assert not {"stdout", "stderr", "exit_code"} & set(declared)


def test_results_are_data_classes_and_dicts() -> None:
    result = types.ExecutionResult("success", "out", "", 0, "s_1")
    assert result.stdout == result["stdout"] == "out" and result.get("error") is None
    assert result == dict(result) and json.loads(json.dumps(result)) == result
    assert dataclasses.asdict(result) == result
    assert dataclasses.replace(result, exit_code=3).exit_code == 3
    for same in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result)):
        assert same == result and type(same) is types.ExecutionResult and same.exit_code == 0
    result.stdout = "other"
    assert result["stdout"] == "other" and "exit_code" in result
    with pytest.raises(AttributeError, match="error_type"):
        result.error_type
    with pytest.raises(TypeError):
        types.UploadResult("success", "path")  # type: ignore[call-arg]


# What programs written for rayai import, by module.
MODULES = {
    "base": ["AgentProtocol"],
    "agent_base": ["Agent"],
    "decorators": ["tool"],
    "batch": ["BatchTool", "batch_tool"],
    "utils": ["execute_tools"],
    "resource_loader": ["_parse_memory"],
    "resource_parser": ["parse_all_ray_resources"],
    "serve": ["AgentConfig", "clear_registered_agents", "get_registered_agents", "run", "serve"],
    "mcp_serve": ["serve_mcp"],
    "deployment": ["create_agent_app", "create_agent_deployment"],
    "cli": ["main"],
    "cli.cli": ["cli", "main"],
    "sandbox.backend": ["get_backend_type"],
    "sandbox.config": ["DEFAULT_IMAGE"],
    "sandbox.executor": ["CodeInterpreterExecutor"],
    "sandbox.kubernetes_executor": ["KubernetesSandboxExecutor"],
    "sandbox.sandbox": ["ExecResult", "Sandbox"],
    "sandbox.tools": ["execute_code"],
    "sandbox.types": ["ExecutionResult", "ExecutionError"],
}


def test_modules() -> None:
    for name, names in MODULES.items():
        module = importlib.import_module(f"rayai.{name}")
        assert set(names) <= set(module.__all__), name
        assert all(getattr(module, n) is not None for n in names)
    assert importlib.import_module("rayai.resource_loader")._parse_memory("1.5GB") == 3 << 29
    block = importlib.import_module("rayai.resource_parser").parse_all_ray_resources
    assert block("ray: num_cpus=2, memory=4GB") == {"num_cpus": 2, "memory": "4GB"}


@pytest.mark.parametrize(
    "first", ["import rayai.serve", "from rayai.serve import serve", "import rayai; rayai.serve"]
)
def test_serve_is_a_function_and_a_module(first: str) -> None:
    code = (
        f"{first}\nimport rayai\nfrom rayai.serve import get_registered_agents, serve\n"
        "assert rayai.serve is serve and callable(serve)\n"
        "import rayai.decorators, rayai.serve\n"
        "from rayai import serve as again\n"
        "print(again is serve, get_registered_agents())"
    )
    assert run(code) == "True []\n"


def test_other_back_ends_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    from rayai.sandbox.backend import get_backend_type
    from rayai.sandbox.kubernetes_executor import KubernetesSandboxExecutor

    assert get_backend_type() == "native"
    monkeypatch.setenv("RAYAI_SANDBOX_BACKEND", "kubernetes")
    with pytest.raises(husk.errors.BackendUnavailableError):
        get_backend_type()
    with pytest.raises(husk.errors.BackendUnavailableError):
        KubernetesSandboxExecutor(session_id="s")


def test_constants() -> None:
    assert config.DEFAULT_IMAGE == "python:3.12-slim"
    assert config.DEFAULT_TIMEOUT == 30
    assert config.MEMORY_LIMIT == "512m"
    assert (config.CPU_QUOTA, config.CPU_PERIOD) == (100000, 100000)
    assert config.NETWORK_MODE == "none"
    assert config.SESSION_TIMEOUT == 3600
    assert config.SANDBOX_BACKEND == "auto"
    assert config.KUBERNETES_TEMPLATE == "python-runtime-template"
    assert config.KUBERNETES_NAMESPACE == "default"
    # Boxes are husk's own unless another isolation is asked for, which is then refused: no claim of
    # gVisor.
    assert (config.RUNTIME, config.STRICT_GVISOR) == ("native", False)


def run(code: str, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_variables_set_the_constants() -> None:
    code = (
        "from rayai.sandbox import config as c, execute_code\n"
        "import inspect\n"
        "print(c.DEFAULT_IMAGE, c.RUNTIME, c.STRICT_GVISOR, c.SANDBOX_BACKEND,"
        " c.KUBERNETES_TEMPLATE, c.KUBERNETES_NAMESPACE,"
        " inspect.signature(execute_code).parameters['image'].default)"
    )
    said = run(
        code,
        RAYAI_SANDBOX_IMAGE="python-datascience",
        RAYAI_SANDBOX_RUNTIME="runsc",
        RAYAI_STRICT_GVISOR="true",
        RAYAI_SANDBOX_BACKEND="kubernetes",
        RAYAI_SANDBOX_TEMPLATE="t",
        RAYAI_SANDBOX_NAMESPACE="n",
    )
    assert said.split() == [
        "python-datascience",
        "runsc",
        "True",
        "kubernetes",
        "t",
        "n",
        "python-datascience",
    ]


def test_importing_imports_no_framework() -> None:
    code = (
        "import sys, rayai\n"
        "print(sorted(m for m in sys.modules if m.split('.')[0] in ('ray', 'husk', 'httpx')))\n"
        "import rayai.sandbox\n"
        "rayai.tool, rayai.serve, rayai.serve_mcp, rayai.Agent, rayai.batch_tool, rayai.Sandbox\n"
        "bad = ('ray', 'pydantic_ai', 'langchain_core', 'agno', 'mcp', 'fastapi', 'starlette')\n"
        "print(sorted(m for m in sys.modules if m.split('.')[0] in bad))"
    )
    assert run(code).splitlines() == ["[]", "[]"]
