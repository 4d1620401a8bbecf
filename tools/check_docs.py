#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the pages: links lead somewhere, files that they name exist and have the functions that a
row of a table names beside them, names of pages are in lower case.

    tools/check_docs.py    prints "page:line: what is wrong"

Decisions (docs/adr) and CHANGELOG.md may name files of their time; their links are checked.
"""
from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from lint import project_files

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]+))?\)")
NAMED_FILE = re.compile(
    r"`((?:[\w*{},.-]+/)+[\w*{},-]+\.(?:c|h|def|py|sh|yaml|seccomp|md))(?:::[^`]*)?`"
)
FUNCTIONS = re.compile(r"^\| `([\w/]+\.[ch])` \| (`\w+\(\)`(?:, `\w+\(\)`)*) \|")
PLACEHOLDER = re.compile(r"\*/|NAME|thing|^build/")  # made, or to be made
HISTORY = ("docs/adr/", "CHANGELOG.md")


@cache
def anchors(page: Path) -> set[str]:
    """Of its headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def alternatives(name: str) -> list[str]:
    """`a_{b,c}.h` is two files."""
    match = re.search(r"\{([^}]*)\}", name)
    if match is None:
        return [name]
    head, tail = name[: match.start()], name[match.end() :]
    return [n for part in match.group(1).split(",") for n in alternatives(head + part + tail)]


@cache
def exists(name: str) -> bool:
    """From the top, or from src or tests."""
    return any(True for top in (ROOT, ROOT / "src", ROOT / "tests") for _ in top.glob(name))


def missing_functions(line: str) -> Iterator[str]:
    """A row "| `file` | `function()`, ... |" names functions that the file defines."""
    if (match := FUNCTIONS.match(line)) and (file := ROOT / match.group(1)).is_file():
        for name in re.findall(r"\w+", match.group(2)):
            if not re.search(rf"^\w[^;\n]*\b{name}\(", file.read_text(), re.M):
                yield f"{match.group(1)} has no function {name}()"


def check_page(page: Path) -> Iterator[tuple[int, str]]:
    name = page.relative_to(ROOT).as_posix()
    for number, line in enumerate(page.read_text().splitlines(), 1):
        for target, anchor in LINK.findall(line):
            path = page.parent / target if target else page
            if not path.exists():
                yield number, f"the link to {target} leads nowhere"
            elif anchor and anchor not in anchors(path):
                yield number, f"{target or name} has no heading #{anchor}"
        yield from ((number, text) for text in missing_functions(line))
        if not name.startswith(HISTORY):
            named = [n for match in NAMED_FILE.findall(line) for n in alternatives(match)]
            gone = [n for n in named if not PLACEHOLDER.search(n) and not exists(n)]
            yield from ((number, f"there is no file {n}") for n in gone)
    if name.startswith("docs/") and page.name not in (page.name.lower(), "README.md"):
        yield 1, "the name of a page is in lower case"


def main() -> int:
    pages = [path for path in project_files() if path.suffix == ".md"]
    found = [(page, *finding) for page in pages for finding in check_page(page)]
    for page, line, text in found:
        print(f"{page.relative_to(ROOT)}:{line}: {text}")
    print(f"check_docs.py: {len(pages)} pages, {len(found)} errors")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
