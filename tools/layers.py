#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The layers of src: reads src/layers and tells which file includes which.

    tools/layers.py src/layers FOLDER    makes FOLDER/LAYER for each layer, with links to what it
                                         may include, and prints the layers; the build calls this

tools/lint.py and tools/house import this module.
"""
from __future__ import annotations

import os
import posixpath
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = "src/layers"
PUBLIC = "husk"  # include/husk

COMMENT_OR_STRING = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"", re.S)
INCLUDE = re.compile(r"^[ \t]*(?:#|%:)[ \t]*(?:include|include_next|import)\b[ \t]*(.*)$", re.M)
OPERAND = re.compile(r'"([^"]+)"|<([^>]+)>')


@dataclass(frozen=True)
class Include:
    """One #include of a file. The target is empty if a macro computes it."""

    line: int
    target: str
    is_quoted: bool


def includes_of(text: str) -> Iterator[Include]:
    """All of them: indented, in angle brackets, behind comments, over several lines."""
    blanked = COMMENT_OR_STRING.sub(blank_comment, text).replace("\\\n", "  ")
    for match in INCLUDE.finditer(blanked):
        line = text.count("\n", 0, match.start(1)) + 1
        operand = OPERAND.match(match.group(1))
        target = (operand.group(1) or operand.group(2)) if operand else ""
        yield Include(line, target, bool(operand and operand.group(1)))


def blank_comment(match: re.Match[str]) -> str:
    token = match.group()
    return token if token.startswith('"') else re.sub(r"[^\n]", " ", token)


class Layers:
    """The table, and the headers of the project below a root."""

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root
        self.allowed: dict[str, list[str]] = {}
        for line in (root / TABLE).read_text().splitlines():
            name, colon, entries = line.partition("#")[0].partition(":")
            if colon:
                self.allowed[name.strip()] = entries.split()
        self.known: dict[str, list[str]] = {}  # the project's headers that a header includes

    @cached_property
    def faults(self) -> list[str]:
        """What the table says about things that are not there, and what it does not say."""
        folders = {p.name for p in (self.root / "src").iterdir() if p.is_dir()}
        found = [f"{TABLE}: no layer {name} in src" for name in self.allowed.keys() - folders]
        found += [f"{TABLE} has no line for src/{name}" for name in folders - self.allowed.keys()]
        for name, entries in self.allowed.items():
            gone = [e for e in entries if not self.path(e).exists()]
            found += [f"{TABLE}: {name} may include {e}, which does not exist" for e in gone]
        return sorted(found)

    def path(self, name: str) -> Path:
        """Where a layer or header is: "core" or "core/core.h"."""
        top = "include" if name.split("/")[0] == PUBLIC else "src"
        return self.root / top / name

    def may_include(self, layer: str, header: str) -> bool:
        of = header.split("/")[0]
        return of == layer or of in self.allowed[layer] or header in self.allowed[layer]

    def resolve(self, file: str, include: Include) -> str:
        """The project's header that a file ("core/pool.c") includes, however it is written: "base/err.h".
        Empty for headers of the system and for generated ones.
        """
        folders = [posixpath.dirname(file)] if include.is_quoted else []
        # The compiler also looks into the folder of the target, which is the layer's.
        for folder in [*folders, "", file.split("/")[0]]:
            name = posixpath.normpath(posixpath.join(folder, include.target))
            if not name.startswith("..") and "/" in name and self.path(name).is_file():
                return name
        return ""

    def included(self, header: str) -> list[str]:
        if header not in self.known:
            text = self.path(header).read_text()
            resolved = [self.resolve(header, include) for include in includes_of(text)]
            self.known[header] = [name for name in resolved if name]
        return self.known[header]

    def forbidden_below(self, layer: str, header: str) -> list[str]:
        """The way from a header of another layer to the first one that the layer must not see; empty if
        there is none.
        """
        ways = [[header]]
        seen = {header}
        for way in ways:  # grows
            for name in self.included(way[-1]):
                if not self.may_include(layer, name):
                    return [*way, name]
                if name not in seen:
                    seen.add(name)
                    ways.append([*way, name])
        return []

    def violations(self, file: str, text: str) -> Iterator[tuple[int, str]]:
        """Lines of a file ("api/run.c") whose includes break the rules, and how."""
        layer = file.split("/")[0]
        if layer not in self.allowed:
            yield 1, f"src/{layer} is no layer: {TABLE} has no line for it"
            return
        for include in includes_of(text):
            header = self.resolve(file, include)
            if include.target == "":
                yield include.line, "a computed include: name the header"
            if header == "":
                continue
            if header != include.target or not (include.is_quoted or header.startswith(PUBLIC)):
                yield include.line, f'written as {include.target}: include "{header}"'
            if not self.may_include(layer, header):
                text = f"{layer}/ must not include {header}; {TABLE} allows it: "
                yield include.line, text + " ".join([layer, *self.allowed[layer]])
            elif header.split("/")[0] != layer and (way := self.forbidden_below(layer, header)):
                yield include.line, f"{layer}/ must not see {way[-1]}: {' > '.join(way)}"


def make_folders(layers: Layers, into: Path) -> None:
    """Relative links: the folder may be copied together with the source."""
    shutil.rmtree(into, ignore_errors=True)
    for layer, entries in layers.allowed.items():
        for entry in [layer, *entries]:
            link = into / layer / entry
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(os.path.relpath(layers.path(entry), link.parent))


def main() -> int:
    table, into = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    layers = Layers(table.parent.parent)
    if layers.faults:
        print("\n".join(layers.faults), file=sys.stderr)
        return 1
    make_folders(layers, into)
    print(" ".join(layers.allowed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
