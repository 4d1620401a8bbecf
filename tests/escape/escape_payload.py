# SPDX-License-Identifier: Apache-2.0
"""Payload files: their headers, and what a header demands of a run.

A payload is one small hostile program. The comment at its top holds `key: value` lines:

    technique  which idea or threat row it plays, e.g. "19" or "E10"
    held       one sentence: what it means that the wall held
    expect     what the run must look like; may be repeated, see Demand
    cause      short for `expect: cause=...`
    limits     flags for `husk run`, over the default ones
    control    "escapes": run without a box, the program must reach a canary (so the test can fail)
    build      native only: more flags for the compiler
"""
from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
LANGUAGES = {"python": "py", "shell": "sh", "javascript": "js", "native": "c"}
HEADER_LINES = 25
# Time is the subject of no payload that does not name its own limit: 60 s are for a busy machine.
DEFAULT_LIMITS = {"--timeout": "60", "--memory": "256M", "--disk": "16M", "--pids": "64"}
KEYS = ("technique", "held", "expect", "cause", "limits", "control", "build")
HEADER = re.compile(r"^(?:#|//|\s*\*)\s*(%s): (.+?)\s*$" % "|".join(KEYS))
DEMAND = re.compile(r"^([a-z_]+)(!~|~|<=|>=|=)(.+)$")


@dataclass(frozen=True)
class Demand:
    """One condition on a run: `status=a|b`, `stdout~regex`, `stderr!~regex`, `peak_mb<=65`."""

    key: str
    operator: str
    wanted: str

    @classmethod
    def parse(cls, text: str) -> "Demand":
        match = DEMAND.match(text)
        if match is None:
            raise ValueError(f"not a demand: {text!r}")
        return cls(*match.groups())

    def holds(self, facts: dict[str, Any]) -> bool:
        if self.key not in facts:
            raise ValueError(f"a demand names {self.key!r}, which no run has")
        got = facts[self.key]
        if self.operator == "=":
            return str(got) in self.wanted.split("|")
        if self.operator in ("~", "!~"):
            found = re.search(self.wanted, str(got), re.MULTILINE) is not None
            return found == (self.operator == "~")
        if self.operator == "<=":
            return float(got) <= float(self.wanted)
        return float(got) >= float(self.wanted)

    def __str__(self) -> str:
        return f"{self.key}{self.operator}{self.wanted}"


@dataclass
class Payload:
    path: Path
    language: str
    header: dict[str, str] = field(default_factory=dict)
    demands: list[Demand] = field(default_factory=list)

    @property
    def id(self) -> str:
        return f"{self.language}/{self.path.stem}"

    @property
    def has_control(self) -> bool:
        return self.header.get("control") == "escapes"

    def flags(self) -> dict[str, str]:
        """Limit flags: the default ones, overridden by the `limits` line."""
        flags = dict(DEFAULT_LIMITS)
        words = shlex.split(self.header.get("limits", ""))
        flags.update(zip(words[::2], words[1::2], strict=True))
        return flags

    def timeout_s(self) -> float:
        return float(self.flags()["--timeout"])


def parse(path: Path, language: str) -> Payload:
    payload = Payload(path, language)
    for line in path.read_text(encoding="utf-8").splitlines()[:HEADER_LINES]:
        match = HEADER.match(line)
        if match is None:
            continue
        key, value = match.groups()
        if key == "expect":
            payload.demands += [Demand.parse(word) for word in shlex.split(value)]
        elif key == "cause":
            payload.demands.append(Demand.parse(f"cause={value}"))
        else:
            payload.header[key] = value
    for key in ("technique", "held"):
        if key not in payload.header:
            raise ValueError(f"{path.name}: no `{key}:` line in its header")
    if not payload.demands:
        raise ValueError(f"{path.name}: no `expect:` line in its header")
    return payload


def all_payloads() -> list[Payload]:
    found = []
    for language, suffix in LANGUAGES.items():
        paths = (HERE / language).glob(f"*.{suffix}")
        for path in sorted(paths, key=lambda path: int(path.stem.split("_")[0])):
            found.append(parse(path, language))
    return found
