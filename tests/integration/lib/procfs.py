# SPDX-License-Identifier: Apache-2.0
"""The processes of this machine as /proc shows them."""
from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    start: str  # together with the pid it names one process
    state: str
    name: str


def _folders() -> Iterator[Path]:
    return (entry for entry in Path("/proc").iterdir() if entry.name.isdigit())


def processes() -> dict[int, Process]:
    found = {}
    for entry in _folders():
        try:
            name, rest = (entry / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
        except OSError:
            continue  # it has ended meanwhile
        words = rest.split()
        pid = int(entry.name)
        found[pid] = Process(pid, int(words[1]), words[19], words[0], name)
    return found


def below(pid: int) -> list[Process]:
    """Every descendant."""
    everyone = processes()
    found: list[Process] = []
    parents = {pid}
    while parents:
        children = [p for p in everyone.values() if p.parent in parents]
        found += children
        parents = {p.pid for p in children}
    return found


def is_alive(process: Process) -> bool:
    now = processes().get(process.pid)
    return now is not None and now.start == process.start and now.state != "Z"


def links_of(pid: int) -> dict[int, str]:
    """What its descriptors lead to, without those that it closes meanwhile."""
    found = {}
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            found[int(name)] = os.readlink(f"/proc/{pid}/fd/{name}")
    return found


def pids_with(mark: str, file: str = "environ") -> list[int]:
    """Processes whose environment, or `cmdline`, holds the mark."""
    found = []
    for entry in _folders():
        try:
            if mark.encode() in (entry / file).read_bytes():
                found.append(int(entry.name))
        except OSError:
            pass  # it has ended, or is not ours to see
    return found
