# SPDX-License-Identifier: Apache-2.0
"""Tests of tools/cliref.py: what it reads from help texts, and what it writes into pages."""
from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import cliref

RUN = """Usage: husk run [options] CODE
       husk run -

Runs code.

Limits:
  -t, --timeout TIME     wall-clock time: 5, 500ms
      --max-output-size BYTES
                         each stream; see
                         --timeout
Output:
      --memory SIZE      of a run
      --raw              no \\xNN

Examples:
  --not an option
"""
DOWN = """Usage: husk down

Ends it.

Options:
  -h, --help             show the help text

Limits:
      --memory SIZE      Memory of a `box`.
"""
UP = DOWN.replace("down", "up").replace("  -h", "  -d, --detach           return\n  -h")
OVERVIEW = """Usage: husk COMMAND

Commands:
  run   run it
  down  end it
  down2  end it
"""


@pytest.fixture
def programs(tmp_path: Path) -> cliref.Programs:
    found = cliref.Programs(tmp_path)
    found.seen = {
        "husk --help": OVERVIEW,
        "husk run --help": RUN,
        "husk down --help": DOWN,
        "husk up --help": UP,
        "husk help run": RUN,
        "husk help down": DOWN,
        "husk help down2": DOWN,
    }
    return found


def test_markdown_has_each_option_once(programs: cliref.Programs) -> None:
    page = "a\n<!-- options:husk run:begin -->\nold\n<!-- options:husk run:end -->\nb\n"
    want = """a
<!-- options:husk run:begin -->
| option | meaning |
|---|---|
| `-t`, `--timeout` TIME | wall-clock time: 5, 500ms |
| `--max-output-size` BYTES | each stream; see `--timeout` |
| `--memory` SIZE | of a run |
| `--raw` | no `\\xNN` |
<!-- options:husk run:end -->
b
"""
    assert cliref.fill(page, False, programs) == want
    assert cliref.fill(want, False, programs) == want


def test_manual_page_escapes_and_groups(programs: cliref.Programs) -> None:
    page = '.\\" options:husk run:begin\n.\\" options:husk run:end\n'
    lines = cliref.fill(page, True, programs).splitlines()
    assert lines[1:5] == [
        ".SS Limits",
        ".TP",
        "\\fB\\-t\\fR, \\fB\\-\\-timeout\\fR \\fITIME\\fR",
        "wall-clock time: 5, 500ms",
    ]
    assert "each stream; see \\fB\\-\\-timeout\\fR" in lines and "no \\exNN" in lines


def test_settings_are_those_of_down(programs: cliref.Programs) -> None:
    assert [o.name for o in programs.options("husk up")] == ["detach", "help"]
    assert [o.name for o in programs.settings("husk up")] == ["memory"]
    assert programs.settings("husk run") == []
    assert "Memory of a \\fBbox\\fR." in cliref.man_options(programs.settings("husk up"))


def test_usage_of_each_command_once(programs: cliref.Programs) -> None:
    usage = ["husk run [options] CODE", "husk run -", "husk down"]
    assert programs.usage("husk") == usage
    assert programs.usage("husk run") == usage[:2]
    assert cliref.man_usage(usage[:1]) == "\\fBhusk\\fR \\fBrun\\fR [\\fBoptions\\fR] \\fICODE\\fR"


@pytest.mark.parametrize(
    "page",
    [
        "<!-- options:husk run:begin -->\n",
        "<!-- options:husk run:begin -->\n<!-- options:husk up:end -->\n",
        "<!-- settings:husk run:begin -->\n<!-- settings:husk run:end -->\n",
        "<!-- words:husk run:begin -->\n<!-- words:husk run:end -->\n",
    ],
)
def test_wrong_markers_are_refused(page: str, programs: cliref.Programs) -> None:
    with pytest.raises(cliref.PageError):
        cliref.fill(page, False, programs)


def test_unreadable_help_is_refused() -> None:
    with pytest.raises(cliref.PageError):
        cliref.parse("Usage: x\n\nOptions:\n  --no-indent  text\n")
