# SPDX-License-Identifier: Apache-2.0
"""The layers of src hold: an include that src/layers forbids does not compile, tools/lint.py names it,
however it is disguised, and tools/house tells when docs/architecture.md draws another graph.
"""
from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("HUSK_BUILD", ROOT / "build")).resolve()
HEAD = "/* SPDX-License-Identifier: Apache-2.0 */\n/* A file. */\n"


def table() -> dict[str, list[str]]:
    """src/layers, read once more: the tests do not trust the tool's reader."""
    lines = [line.split("#")[0] for line in (ROOT / "src" / "layers").read_text().splitlines()]
    rows = [line.split(":") for line in lines if line.strip()]
    return {name: entries.split() for name, entries in rows}


TABLE = table()


class Copy:
    """A copy of the source in which violations can be planted."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("src", "include"):
            shutil.copytree(ROOT / name, root / name)
        for name in ("tools/lint.py", "tools/layers.py", "tools/house", "docs/architecture.md"):
            (root / name).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, root / name)

    def plant(self, name: str, text: str) -> None:
        file = self.root / name
        file.write_text((file.read_text() if file.exists() else HEAD) + text)

    def lint(self, *names: str) -> str:
        return self.run(["tools/lint.py", *names], "lint.py: 0 errors")

    def house(self) -> str:
        return self.run(["tools/house", "--check"], "house: 0 differences")

    def run(self, words: list[str], content: str) -> str:
        command = ["/usr/bin/python3", "-B", *words]
        ended = subprocess.run(command, cwd=self.root, stdout=subprocess.PIPE, text=True)
        assert ended.returncode == (0 if content in ended.stdout else 1)
        return ended.stdout


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path)


VIOLATION = "src/agents/planted.c:3: agents/ must not include store/store.h"
DISGUISES = {
    "plain": '#include "store/store.h"\n',
    "angle brackets": "#include <store/store.h>\n",
    "relative": '#include "../store/store.h"\n',
    "indented": ' #   include "store/store.h"\n',
    "roundabout": '#include "config/../store/store.h"\n',
    "behind a comment": '/* */ # /* */ include /* */ "store/store.h"\n',
    "digraph": '%:include "store/store.h"\n',
}


@pytest.mark.parametrize("text", DISGUISES.values(), ids=DISGUISES.keys())
def test_lint_sees_through_a_disguise(copy: Copy, text: str) -> None:
    copy.plant("src/agents/planted.c", text)
    assert VIOLATION in copy.lint("src/agents/planted.c")


def test_lint_finds_an_include_over_two_lines(copy: Copy) -> None:
    copy.plant("src/agents/planted.c", '#include \\\n"store/store.h"\n')
    assert "agents/ must not include store/store.h" in copy.lint("src/agents/planted.c")


def test_lint_finds_a_computed_include(copy: Copy) -> None:
    copy.plant("src/agents/planted.c", '#define HEADER "store/store.h"\n#include HEADER\n')
    assert "src/agents/planted.c:4: a computed include" in copy.lint("src/agents/planted.c")


def test_lint_finds_a_transitive_include(copy: Copy) -> None:
    """agents may include config, and nothing forbids a file of agents what it does not see itself."""
    copy.plant("src/agents/planted.c", '#include "config/config.h"\n')
    assert "lint.py: 0 errors" in copy.lint("src/agents/planted.c")
    copy.plant("src/config/more.h", '#pragma once\n#include "store/store.h"\n')
    copy.plant("src/config/config.h", '#include "config/more.h"\n')
    want = "3: agents/ must not see store/store.h: config/config.h > config/more.h > store/store.h"
    assert f"src/agents/planted.c:{want}" in copy.lint("src/agents/planted.c")


def test_lint_lets_in_by_the_door_alone(copy: Copy) -> None:
    layers = copy.root / "src" / "layers"
    layers.write_text(layers.read_text() + "extra: base store/store.h\n")
    (copy.root / "src" / "extra").mkdir()
    copy.plant("src/extra/a.c", '#include "base/err.h"\n#include "store/store.h"\n')
    assert "lint.py: 0 errors" in copy.lint("src/extra/a.c")
    copy.plant("src/extra/a.c", '#include "store/record.h"\n')
    want = "src/extra/a.c:5: extra/ must not include store/record.h"
    assert want in copy.lint("src/extra/a.c")


def test_the_table_names_each_folder(copy: Copy) -> None:
    (copy.root / "src" / "extra").mkdir()
    command = ["/usr/bin/python3", "-B", "tools/layers.py", "src/layers", "inc"]
    ended = subprocess.run(command, cwd=copy.root, stderr=subprocess.PIPE, text=True)
    assert (ended.returncode, ended.stderr) == (1, "src/layers has no line for src/extra\n")


def test_house_compares_the_page_with_the_code(copy: Copy) -> None:
    assert copy.house() == "house: 0 differences\n"
    copy.plant("src/agents/planted.c", '#include "store/store.h"\n')
    page = copy.root / "docs" / "architecture.md"
    text = page.read_text()
    limited = next(line for line in text.splitlines() if line.startswith("| `limited` |"))
    page.write_text(text.replace(limited, limited.replace("base box", "base box wire")))
    assert copy.house().splitlines() == [
        "docs/architecture.md: agents includes store, which its row does not have",
        "docs/architecture.md: limited no longer includes wire",
        "house: 2 differences",
    ]


def test_house_finds_what_the_table_allows_in_vain(copy: Copy) -> None:
    layers = copy.root / "src" / "layers"
    layers.write_text(layers.read_text().replace("limited:", "limited: store/store.h"))
    assert "src/layers: limited may include store/store.h and does not" in copy.house()


def compile_commands() -> dict[str, list[str]]:
    """How the build compiles one file of each layer."""
    found: dict[str, list[str]] = {}
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        parts = entry["output"].split("/")
        if parts[0] == "src" and entry["file"].startswith("../src/"):
            found[parts[1]] = shlex.split(entry["command"])
    return found


COMMANDS = compile_commands()


def preprocess(layer: str, text: str) -> tuple[bool, str]:
    """Whether the layer's compiler finds what a file includes, and what it says."""
    command = [a for a in COMMANDS[layer] if a.startswith(("-I", "-D"))]
    command = ["cc", "-std=gnu17", *command, "-E", "-x", "c", "-", "-o", "/dev/null"]
    ended = subprocess.run(command, cwd=BUILD, input=text, stderr=subprocess.PIPE, text=True)
    return ended.returncode == 0, ended.stderr


def a_header(name: str) -> str:
    """One of a layer's headers: no door, and it needs nothing generated."""
    top = ROOT / ("include" if name == "husk" else "src")
    doors = {entry for entries in TABLE.values() for entry in entries}
    for path in sorted((top / name).rglob("*.h")):
        header = path.relative_to(top).as_posix()
        if header not in doors and "api_ops.h" not in path.read_text():
            return header
    return ""


def test_the_build_compiles_each_layer() -> None:
    assert sorted(COMMANDS) == sorted(TABLE)


@pytest.mark.parametrize("layer", TABLE)
def test_a_violation_does_not_compile(layer: str) -> None:
    """Each layer, each other layer: what the table has is found, what it has not is not there."""
    for door in [entry for entry in TABLE[layer] if "/" in entry]:
        found, said = preprocess(layer, f'#include "{door}"\n')
        assert found, said
    for other in sorted({*TABLE, "husk"} - {layer}):
        header = a_header(other)
        if header == "":
            continue
        found, said = preprocess(layer, f'#include "{header}"\n')
        if other in TABLE[layer]:
            assert found, said
        else:
            assert not found and f"{header}: No such file or directory" in said, header
            assert not preprocess(layer, f"#include <{header}>\n")[0], header


def test_only_farms_are_on_the_search_path() -> None:
    """No target of src is compiled with the whole of src in sight."""
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        parts = entry["output"].split("/")
        if parts[0] == "src":
            folders = [a[2:] for a in shlex.split(entry["command"]) if a.startswith("-I")]
            assert f"inc/{parts[1]}" in folders, entry["output"]
            assert not {"../src", "../include"} & set(folders), entry["output"]
