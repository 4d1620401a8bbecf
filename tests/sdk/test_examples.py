# SPDX-License-Identifier: Apache-2.0
"""The programs in sdk/python/examples, each run as a newcomer runs it:
`python sdk/python/examples/NAME.py`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import ROOT, SdkServer
from husk_server import free_port
from places import BIN
from served_project import Project

EXAMPLES = ROOT / "sdk" / "python" / "examples"
PATIENCE = 300  # seconds; a guard against hanging
PNG = b"\x89PNG\r\n\x1a\n"

# What must be in the output, as lines.
EXPECTED: dict[str, list[str]] = {
    "agno_agent": [r"2100 is not a leap year\."],
    "batch_1000": [
        r"1000 calls; the longest way has 178 steps and begins at 871",
        r"1 failed: .*0 never arrives.*",
    ],
    "data_analysis": [r"north +\d+.*", r"chart: .*\.png \(\d+ bytes\)"],
    "langgraph_agent": [r"tool: 233168", r"ai: The sum is 233168\."],
    "pydantic_ai_agent": [r"5 words, 3 letters each on average\."],
    "quickstart": [
        r"285",
        r"cost: .* ms, .* ms CPU, .* MB peak memory, .*",
        r"receipt: isolation full, native backend, .*seccomp .*",
    ],
    "ray_cluster": [r"results: 42, 45", r"ran on 2 nodes of 2"],
}

Run = Callable[..., list[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs an example in a folder of its own, without what tests set; returns its lines."""

    def runs(name: str, python: str = sys.executable, **more_env: str) -> list[str]:
        env = {k: v for k, v in os.environ.items() if not k.startswith(("HUSK_", "PYTHON"))}
        env.update(HUSK_BIN=str(BIN), HOME=str(tmp_path), **more_env)
        done = subprocess.run(
            [python, str(EXAMPLES / f"{name}.py")],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.splitlines()

    return runs


def has_lines(lines: list[str], expected: list[str]) -> bool:
    return all(any(re.fullmatch(e, line) for line in lines) for e in expected)


def test_every_example_is_tested() -> None:
    found = {path.stem for path in EXAMPLES.glob("[!_]*.py")}
    assert found == set(EXPECTED)


# Projects: what they answer.
PROJECTS = {
    "finance_agent": (
        "finance",
        "Which of the top 3 moved most?",
        r"[A-Z]+ moved most: \d+\.\d% between its lowest and highest close",
    ),
    "analyzer": (
        "analyzer",
        "sales by region",
        r"7 rows of sales by region\nnorth: 350\nsouth: 175\nwest: 90\n?",
    ),
}


@pytest.fixture
def project_copy(request: pytest.FixtureRequest) -> Iterator[Project]:
    with Project("rayai") as project:
        shutil.copytree(EXAMPLES / request.param, project.folder)
        yield project


@pytest.mark.parametrize("project_copy", sorted(PROJECTS), indirect=True)
def test_project(project_copy: Project, request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.params["project_copy"]
    agent, query, expected = PROJECTS[name]
    port = free_port()
    mcp = f"http://127.0.0.1:{port}/datasets/mcp"
    with project_copy.up(port=port, ANALYZER_MCP=mcp) as served:
        answer = served.ask(agent, query)
        assert re.fullmatch(expected, answer["response"]), answer


def test_every_project_is_tested() -> None:
    assert {path.name for path in EXAMPLES.iterdir() if (path / "agents").is_dir()} == set(PROJECTS)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_example(server: SdkServer, run: Run, name: str) -> None:
    lines = run(name, HUSK_URL=server.url)
    assert has_lines(lines, EXPECTED[name]), lines


def test_quickstart_without_the_environment_of_tests_and_without_a_server(run: Run) -> None:
    """On a fresh checkout: the system's Python, what `make up` has fetched, and a server that it
    starts itself.
    """
    lines = run("quickstart", python="/usr/bin/python3")
    assert has_lines(lines, EXPECTED["quickstart"]), lines


def test_the_chart_is_a_picture(server: SdkServer, run: Run, tmp_path: Path) -> None:
    run("data_analysis", HUSK_URL=server.url)
    pictures = list(tmp_path.glob("*.png"))
    assert len(pictures) == 1
    assert pictures[0].read_bytes().startswith(PNG) and pictures[0].stat().st_size > 2000
