# SPDX-License-Identifier: Apache-2.0
"""docs/python.md and the READMEs against what they describe: each piece of Python in them is run.

A block ```python is a program; the block without a language right below it is what it prints,
`...` standing for anything. A block whose first line is a comment with a path is a file of a
project, which is served; curls go there.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT, SdkServer
from served_project import Project, Served

PATIENCE = 180  # seconds; a guard against hanging
PAGES = ["docs/python.md", "README.md", "sdk/python/README.md"]
BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\n^```\n(?P<output>.*?)^```\n)?", re.MULTILINE | re.DOTALL
)
FILE = re.compile(r"# (\S+/\S+\.py)\n")
CURL = re.compile(r"^\$ (curl .*localhost:8000/agents.*)\n((?:(?!\$ |```).*\n)*)", re.MULTILINE)
TUTORIAL = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")


def blocks() -> Iterator[tuple[str, str, str | None]]:
    """Page and line, code, and the output if it is there."""
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        for match in BLOCK.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            yield f"{page}:{line}", match["code"], match["output"]


PROGRAMS = [block for block in blocks() if not FILE.match(block[1])]
FILES = [block[1] for block in blocks() if FILE.match(block[1])]
CURLS = [(command, output) for command, output in CURL.findall(TUTORIAL)]


def matches(printed: str, said: str) -> bool:
    """True if that was said, with something in place of each `...`."""
    pattern = ".*".join(re.escape(part) for part in printed.split("..."))
    return re.fullmatch(pattern, said, re.DOTALL) is not None


def test_every_variable_of_tools_is_told() -> None:
    source = "".join(path.read_text() for path in (ROOT / "sdk/python/husk").rglob("*.py"))
    names = set(re.findall(r'environ.get\("(HUSK_TOOL_\w+)"', source))
    assert len(names) == 4
    for name in names:
        assert f"`{name}`" in TUTORIAL, name


def test_the_pages_have_what_is_tested_here() -> None:
    assert len(PROGRAMS) > 15 and len(FILES) == 2 and len(CURLS) == 3
    without_output = [where for where, _, output in PROGRAMS if output is None]
    assert not [where for where in without_output if where.startswith("docs/")]


@pytest.mark.parametrize("where, code, output", PROGRAMS, ids=[p[0] for p in PROGRAMS])
def test_program(
    server: SdkServer, tmp_path: Path, where: str, code: str, output: str | None
) -> None:
    program = tmp_path / "program.py"
    program.write_text(code)
    done = subprocess.run(
        [sys.executable, str(program)],
        cwd=tmp_path,
        env={**os.environ, "HUSK_URL": server.url},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout and matches(output or "...", done.stdout), done.stdout


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """The project of the page."""
    with Project("husk") as project:
        for text in FILES:
            match = FILE.match(text)
            assert match is not None
            project.write(match.group(1), text)
        with project.up() as running:
            yield running


@pytest.mark.parametrize("command, printed", CURLS)
def test_curl(served: Served, command: str, printed: str) -> None:
    done = subprocess.run(
        command.replace("localhost:8000", f"127.0.0.1:{served.port}"),
        shell=True,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert (done.returncode, done.stderr) == (0, "")
    if printed.startswith("{"):  # spaces do not matter
        assert json.loads(done.stdout) == json.loads(printed)
    else:
        assert matches(printed.strip(), done.stdout.strip()), done.stdout


def test_every_agent_of_the_page_answers(served: Served) -> None:
    assert set(served.agents()) == {"calculator", "counter"}
    assert "count_words" in served.ask("counter", "How many words?")["response"]
