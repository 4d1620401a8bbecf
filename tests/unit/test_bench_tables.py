# SPDX-License-Identifier: Apache-2.0
"""bench/tables.py: what README.md shows of a run."""
from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
tables = runpy.run_path(str(ROOT / "bench" / "tables.py"))
PAGES = ["README.md", "docs/performance.md"]


def table_of(rows: list[tuple[str, str]]) -> str:
    return "".join(f"| {id} | x | 1 ms | {peer} | 2 ms |\n" for id, peer in [("id", "peer"), *rows])


def test_the_readme_gets_the_first_row_of_each_kind() -> None:
    rows = [("-", "-"), ("P4", "other")]
    rows += [row for chosen in tables["IN_README"] for row in (chosen, chosen)]
    shown = tables["readme_table"](table_of(rows))
    assert shown == table_of([("-", "-"), *tables["IN_README"]])


def test_a_run_of_some_rows_changes_no_page() -> None:
    with pytest.raises(SystemExit, match="no row P1 with bwrap"):
        tables["readme_table"](table_of([("-", "-"), ("P1", "exec true")]))


@pytest.mark.parametrize("page", PAGES)
def test_only_the_marked_part_of_a_page_changes(page: str) -> None:
    text = (ROOT / page).read_text()
    before, after = text.split(tables["BEGIN"])[0], text.split(tables["END"])[1]
    assert tables["replace"](text, "new\n") == (
        f"{before}{tables['BEGIN']}new\n{tables['END']}{after}"
    )
