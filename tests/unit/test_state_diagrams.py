# SPDX-License-Identifier: Apache-2.0
"""Tests of tools/state_diagrams.py: what it draws, and which tables it refuses."""
from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import state_diagrams as diagrams

STATES = """
SESSION_STATE(A, "a", false) /* first */
SESSION_STATE(B, "b", true)  /* last */
SESSION_STEP(A, B, "why: so")
EXECUTION_STATE(A, "a", false)
EXECUTION_STATE(B, "b", true)
EXECUTION_STEP(A, B, "why")
"""
PAGE = """before
<!-- states:session:begin -->
old
<!-- states:session:end -->
<!-- states:execution:begin -->
<!-- states:execution:end -->
after
"""


def test_diagrams_replace_what_is_between_the_markers() -> None:
    page = diagrams.fill(PAGE, diagrams.read(STATES))
    assert "old" not in page and page.startswith("before\n") and page.endswith("after\n")
    assert "    a --> b: why, so\n" in page and "| `a` |  | first |" in page
    assert diagrams.fill(page, diagrams.read(STATES)) == page


BAD_STATES = [
    ('SESSION_STEP(A, C, "x")', "session: there is no state C"),
    ('SESSION_STEP(B, A, "x")', "session: B is final"),
    ('SESSION_STATE(C, "c", true)', "session: nothing leads to ['C']"),
    ('SESSION_STATE(C, "c", false)\nSESSION_STEP(A, C, "x")', "session: nothing leads out of C"),
    ("SESSION_STATE(A)", "a row has an unknown shape"),
]


@pytest.mark.parametrize("row, want", BAD_STATES)
def test_diagrams_refuse_wrong_tables(row: str, want: str) -> None:
    with pytest.raises(diagrams.TableError) as failure:
        diagrams.read(f"{STATES}{row}\n")
    assert str(failure.value).startswith(want)


def test_diagrams_need_their_markers() -> None:
    with pytest.raises(diagrams.TableError):
        diagrams.fill("nothing", diagrams.read(STATES))
