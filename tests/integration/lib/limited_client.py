# SPDX-License-Identifier: Apache-2.0
"""Starts husk limited and looks at what is left of it."""
from __future__ import annotations

import glob
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from programs import Program
from waiting import PATIENCE

PYTHON = "/usr/bin/python3"
NOBODY = 65534

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="cgroups are made by root here")


@dataclass
class Limited:
    """One husk limited that runs, and what it reports."""

    process: subprocess.Popen[bytes]
    report_fd: int

    @classmethod
    def start(cls, husk: Program, *args: str, before: list[str] | None = None) -> Limited:
        read, write = os.pipe()
        try:
            process = subprocess.Popen(
                [*(before or []), husk.path, "limited", "--report-fd", str(write), *args],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=[write],
                cwd=husk.cwd,
                env=husk.environment(),
            )
        finally:
            os.close(write)
        return cls(process, read)

    def end(self) -> tuple[int, list[dict[str, Any]], str, str]:
        """Exit code, report, standard output, standard error."""
        out, err = self.process.communicate(timeout=PATIENCE)
        with os.fdopen(self.report_fd, "rb") as report:
            lines = report.read().decode().splitlines()
        return (
            self.process.returncode,
            [json.loads(line) for line in lines],
            out.decode(),
            err.decode(),
        )

    def started(self) -> dict[str, Any]:
        """Waits for the first line of the report."""
        line = b""
        while not line.endswith(b"\n"):
            byte = os.read(self.report_fd, 1)
            assert byte, "ended without saying that it started"
            line += byte
        first: dict[str, Any] = json.loads(line)
        assert first["event"] == "started"
        return first


def run(husk: Program, *args: str) -> tuple[int, list[dict[str, Any]], str, str]:
    return Limited.start(husk, *args).end()


def cgroups_of(pid: int) -> list[str]:
    """Folders of the instance whose first process has or had that pid. Path.glob() would fail when
    another one is removed meanwhile.
    """
    return glob.glob(f"/sys/fs/cgroup/**/husk/{pid}-*", recursive=True)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def children(pid: int) -> list[int]:
    try:
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


AS_NOBODY = (
    ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    if os.geteuid() == 0
    else []
)


@pytest.fixture
def husk_for_all(husk: Program) -> Iterator[Program]:
    """A copy that another user can run: a build folder may be closed to others."""
    folder = Path("/tmp") / f"husk-limited-{os.getpid()}"
    folder.mkdir(mode=0o755)
    try:
        shutil.copy(husk.path, folder / "husk")
        (folder / "husk").chmod(0o755)
        yield Program(folder / "husk", folder, husk.env)
    finally:
        shutil.rmtree(folder)


def run_as_nobody(husk: Program, *args: str) -> tuple[int, list[dict[str, Any]], str, str]:
    return Limited.start(husk, *args, before=AS_NOBODY).end()
