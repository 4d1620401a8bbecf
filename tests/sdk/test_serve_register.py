# SPDX-License-Identifier: Apache-2.0
"""serve() and serve_mcp(): what they register, their defaults and checks."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterator

import pytest

import husk
from husk.serving import register as serving

PATIENCE = 60.0


@pytest.fixture(autouse=True)
def registered() -> Iterator[list[serving.Deployment]]:
    before = list(serving.registered)
    serving.registered.clear()
    yield serving.registered
    serving.registered[:] = before


def echo(query: str) -> str:
    return query


def test_an_imported_file_only_registers(registered: list[serving.Deployment]) -> None:
    husk.serve(echo, name="echo")
    (found,) = registered
    assert found.agent is echo and found.kind == "agent" and found.name == "echo"
    assert found.route_prefix == "/agents/echo"
    assert (found.num_cpus, found.num_gpus, found.memory_bytes) == (1.0, 0.0, 2 << 30)
    assert (found.replicas, found.file) == (1, os.path.abspath(__file__))


def test_mcp_defaults(registered: list[serving.Deployment]) -> None:
    from mcp.server import MCPServer

    husk.serve_mcp(MCPServer("files"), name="files")
    (found,) = registered
    assert (found.kind, found.route_prefix, found.memory_bytes) == ("mcp", "/files", 512 << 20)


def test_name_is_that_of_the_folder(registered: list[serving.Deployment]) -> None:
    husk.serve(echo)
    assert registered[0].name == "sdk"


def test_everything_can_be_said(registered: list[serving.Deployment]) -> None:
    husk.serve(
        echo,
        name="e",
        host="127.0.0.1",
        port=9000,
        num_cpus=2,
        num_gpus=0.5,
        memory="512MB",
        replicas=3,
        route_prefix="/my/agent/",
        max_in_flight=5,
        queue_length=0,
        request_timeout=1.5,
    )
    (found,) = registered
    assert (found.num_cpus, found.num_gpus, found.memory_bytes) == (2.0, 0.5, 512 << 20)
    assert (found.replicas, found.route_prefix) == (3, "/my/agent")
    assert (found.max_in_flight, found.queue_length, found.request_timeout_ms) == (5, 0, 1500)


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "a b"},
        {"name": "x" * 64},
        {"num_cpus": 0},
        {"num_cpus": "2"},
        {"num_gpus": -1},
        {"memory": "lots"},
        {"memory": "1MB"},
        {"replicas": 0},
        {"replicas": 1.5},
        {"route_prefix": "no-slash"},
        {"route_prefix": "/"},
        {"route_prefix": "/a b"},
        {"max_in_flight": 0},
        {"queue_length": -1},
        {"request_timeout": 0},
        {"request_timeout": float("nan")},
    ],
)
def test_wrong_arguments(wrong: dict[str, Any], registered: list[serving.Deployment]) -> None:
    with pytest.raises(ValueError):
        husk.serve(echo, **{"name": "echo", **wrong})
    assert registered == []


def test_unknown_kinds_are_refused_at_once(registered: list[serving.Deployment]) -> None:
    with pytest.raises(TypeError, match="type int"):
        husk.serve(42, name="x")
    with pytest.raises(TypeError, match="cannot serve int"):
        husk.serve_mcp(42, name="x")
    assert registered == []


def test_main_under_discovery_registers_and_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registered: list[serving.Deployment]
) -> None:
    file = tmp_path / "script.py"
    file.write_text("import husk\nhusk.serve(lambda query: query, name='s')\nraise RuntimeError\n")
    monkeypatch.setenv("HUSK_AGENT_DISCOVER", "1")
    with pytest.raises(serving.Registered):
        runpy.run_path(str(file), run_name="__main__")
    assert [d.name for d in registered] == ["s"]


def test_ray_is_asked_for_by_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUSK_ENGINE", "ray")
    assert serving.ray_wanted()
    monkeypatch.setenv("HUSK_ENGINE", "local")
    assert not serving.ray_wanted()
    monkeypatch.delenv("HUSK_ENGINE")
    assert not serving.ray_wanted()


def test_without_a_file_there_is_nothing_to_serve() -> None:
    code = "import husk\nhusk.serve(lambda query: query, name='x')"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 1 and "requires a script in a file" in done.stderr
