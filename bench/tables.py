#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Puts the table of a whole run into the documents, between <!-- bench:begin --> and
<!-- bench:end -->: eight rows into README.md, all of them into docs/performance.md.

    bench/tables.py BUILD/bench.md
"""
from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- bench:begin -->\n", "<!-- bench:end -->"
IN_README = [  # the first row with this id and this peer
    ("P1", "exec true"),
    ("P1", "bwrap+python"),
    ("P2", "gVisor systrap+python"),
    ("P3", "bwrap+python"),
    ("P5", "bwrap+python"),
    ("P9", "one client, quiet"),
    ("H1", "exec true"),
    ("S1", "ProcessPoolExecutor"),
]
MORE = "[docs/performance.md](docs/performance.md) explains each row and has the others."


def readme_table(table: str) -> str:
    lines = table.splitlines()
    chosen = []
    for id, peer in IN_README:
        rows = [s for s in lines if s.startswith(f"| {id} ") and f"| {peer} " in s]
        if not rows:
            raise SystemExit(f"bench/tables.py: no row {id} with {peer}: not a whole run")
        chosen.append(rows[0])
    return "".join(f"{line}\n" for line in lines[:2] + chosen)


def replace(page: str, text: str) -> str:
    before, rest = page.split(BEGIN)
    return before + BEGIN + text + END + rest.split(END)[1]


def machine() -> str:
    release = ".".join(platform.release().split(".")[:2])
    return (
        f"`make bench` on {os.cpu_count()} cores of a virtual machine, Linux {release}: medians and"
        " their ratio, husk and\npeers in turn. Below a floor the bench fails; goals are where we"
        " want to be.\n"
    )


def main() -> None:
    table = Path(sys.argv[1]).read_text()
    for name, text in (
        ("README.md", f"{machine()}{MORE}\n\n{readme_table(table)}"),
        ("docs/performance.md", f"{machine()}\n{table}"),
    ):
        page = ROOT / name
        page.write_text(replace(page.read_text(), text))


if __name__ == "__main__":
    main()
