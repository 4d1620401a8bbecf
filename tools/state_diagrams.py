#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the state machines of src/service/state.def into docs/sessions.md.

    tools/state_diagrams.py            rewrites what stands between the markers
    tools/state_diagrams.py --check    fails when the document is not what would be written

A marker pair is `<!-- states:session:begin -->` and `<!-- states:session:end -->`, the same for
`execution`. The table itself is checked too: each step joins two states that exist, leads out of no
final state, and every state can be reached from the first one.
"""
from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "src" / "service" / "state.def"
DOCUMENT = ROOT / "docs" / "sessions.md"
MACHINES = ("session", "execution")

STATE = re.compile(
    r'^([A-Z]+)_STATE\((\w+), "(\w+)", (true|false)\)\s*(?:/\* (.*?) \*/)?$', re.MULTILINE
)
STEP = re.compile(r'^([A-Z]+)_STEP\((\w+), (\w+), "([^"]*)"\)$', re.MULTILINE)
ROW = re.compile(r"^[A-Z]+_(?:STATE|STEP)\(", re.MULTILINE)


class TableError(Exception):
    """state.def says something that cannot be."""


@dataclass
class State:
    word: str
    is_final: bool
    meaning: str


@dataclass
class Machine:
    name: str
    states: dict[str, State] = field(default_factory=dict)
    steps: list[tuple[str, str, str]] = field(default_factory=list)


def read(text: str) -> dict[str, Machine]:
    """The machines by name. A row that this does not understand is an error, not skipped."""
    machines = {name: Machine(name) for name in MACHINES}
    states, steps = STATE.findall(text), STEP.findall(text)
    if len(states) + len(steps) != len(ROW.findall(text)):
        raise TableError("a row has an unknown shape")
    for kind, name, word, final, meaning in states:
        machines[kind.lower()].states[name] = State(word, final == "true", meaning)
    for kind, start, end, why in steps:
        machines[kind.lower()].steps.append((start, end, why))
    for machine in machines.values():
        check(machine)
    return machines


def check(machine: Machine) -> None:
    reached = set(list(machine.states)[:1])
    for start, end, _ in machine.steps:
        for name in (start, end):
            if name not in machine.states:
                raise TableError(f"{machine.name}: there is no state {name}")
        if machine.states[start].is_final:
            raise TableError(f"{machine.name}: {start} is final, but a step leads out of it")
    for _ in machine.states:
        reached |= {end for start, end, _ in machine.steps if start in reached}
    if reached != set(machine.states):
        raise TableError(
            f"{machine.name}: nothing leads to {sorted(set(machine.states) - reached)}"
        )
    for name, state in machine.states.items():
        if not state.is_final and all(start != name for start, _, _ in machine.steps):
            raise TableError(f"{machine.name}: nothing leads out of {name}")


def label(why: str) -> str:
    """Mermaid ends a label at a colon or semicolon."""
    return re.sub(r"\s*[:;]\s*", ", ", why)


def draw(machine: Machine) -> str:
    words = {name: state.word for name, state in machine.states.items()}
    lines = ["```mermaid", "stateDiagram-v2"]
    lines += [f"    [*] --> {next(iter(words.values()))}"]
    lines += [f"    {words[a]} --> {words[b]}: {label(why)}" for a, b, why in machine.steps]
    lines += [f"    {s.word} --> [*]" for s in machine.states.values() if s.is_final]
    lines += ["```", "", "| state | final | meaning |", "|---|---|---|"]
    for state in machine.states.values():
        lines.append(f"| `{state.word}` | {'yes' if state.is_final else ''} | {state.meaning} |")
    return "\n".join(lines)


def fill(document: str, machines: dict[str, Machine]) -> str:
    for name, machine in machines.items():
        begin, end = f"<!-- states:{name}:begin -->", f"<!-- states:{name}:end -->"
        if document.count(begin) != 1 or document.count(end) != 1:
            raise TableError(f"the document needs one pair of markers for {name}")
        head, rest = document.split(begin)
        document = f"{head}{begin}\n{draw(machine)}\n{end}{rest.split(end)[1]}"
    return document


def main() -> int:
    parser = argparse.ArgumentParser(description="Draws state.def into docs/sessions.md.")
    parser.add_argument("--check", action="store_true", help="write nothing, fail if it differs")
    options = parser.parse_args()
    old = DOCUMENT.read_text(encoding="utf-8")
    try:
        new = fill(old, read(TABLE.read_text(encoding="utf-8")))
    except TableError as error:
        print(f"state_diagrams: {error}", file=sys.stderr)
        return 1
    if options.check:
        if new != old:
            print("docs/sessions.md is not current: run tools/state_diagrams.py", file=sys.stderr)
        return int(new != old)
    DOCUMENT.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
